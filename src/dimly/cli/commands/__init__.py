"""One file a command; plan_choice, plan_sample and plan_interactive are ways of ``dimly plan``."""
