MODIFY e ENUM('a', 'b', 'c') NOT NULL, MODIFY s SET('x', 'y'), ADD KEY v (v)
