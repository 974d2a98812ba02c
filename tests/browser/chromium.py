"""How Chromium is started: without what a container cannot give it, and without traffic of its own."""

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
