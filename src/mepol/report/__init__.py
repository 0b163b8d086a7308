"""One self-contained HTML page of any number of runs, and a small server that shows it while they go on."""
