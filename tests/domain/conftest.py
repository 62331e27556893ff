"""Rules are tested by generated examples; how long one takes says nothing about the rule."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
