"""The shared trainer: gateway, engines and training loops. The only package that may import torch."""
