"""The store on SQLite (>= 3.35), for the processes of one machine: one transaction per verb, one thread."""
