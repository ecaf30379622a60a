"""Real database servers for the tests, each on 127.0.0.1 and in a folder of its own."""
