DROP PRIMARY KEY, ADD PRIMARY KEY (tenant, id), ADD KEY id (id), ADD KEY two (v, tenant)
