"""Other engines than vLLM: recorded pages against what the client saw, and pages made for one question."""
