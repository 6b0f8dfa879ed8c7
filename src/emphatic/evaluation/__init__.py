"""How an agent is scored and shown: whole episodes without learning, and an animation."""
