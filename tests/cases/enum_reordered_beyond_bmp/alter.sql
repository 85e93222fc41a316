MODIFY mood ENUM('😁','😀','plain') CHARACTER SET utf8mb4 NOT NULL, MODIFY tags SET('🍏','🍎') CHARACTER SET utf8mb4 NOT NULL
