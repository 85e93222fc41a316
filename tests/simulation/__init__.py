"""Whole migrations in one thread, on a made-up clock, network and server, under a seed.

The code under test is the program's own. Its threads become greenlets that the scheduler runs one
at a time; its clock is the scheduler's; its sessions and its binlog are those of a model server.
Wherever the program could be interrupted by another thread, a statement or time, the scheduler
chooses who goes on. The choices are a list of small numbers: a seed draws them, and the same list
repeats the same run exactly.
"""
