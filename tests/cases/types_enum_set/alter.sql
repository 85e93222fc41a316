ADD COLUMN e2 ENUM('p','q') NOT NULL DEFAULT 'q' AFTER id, MODIFY e ENUM('a','b','','it''s','comma, and ) paren','ünï','日本','😀','appended') CHARACTER SET utf8mb4
