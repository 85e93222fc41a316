MODIFY a VARCHAR(10) NOT NULL, MODIFY b ENUM('off','on'), MODIFY c VARCHAR(20), MODIFY d ENUM('1','2','3','4'), MODIFY e ENUM('green','red','blue'), MODIFY f SET('a','b','c'), MODIFY g SET('n','m')
