/* a comment */ alter table {table}
  add column c int default 3 comment 'a, b) c' /* inside */ ,
  drop column b -- at the end
