MODIFY state ENUM('new','old') NOT NULL
