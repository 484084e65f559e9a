"""OpenAI Responses, as its SDK and agent programs send them."""
