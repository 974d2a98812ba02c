"""The store on SQLite (>= 3.35), for the processes of one machine: one transaction per verb, one writer thread.

`locks`, `lanes`, `workers`, `processes` and `admin` translate the Lua scripts in the folders of the same names, one
function per script. `accept`, `advance`, `arrive`, `due`, `give`, `lane` and `settle` translate the Lua includes.
"""
