ADD COLUMN x INT, MODIFY e ENUM('zulu','alpha','Mike','bravo','é','😀','😁','','last') CHARACTER SET utf8mb4 NOT NULL
