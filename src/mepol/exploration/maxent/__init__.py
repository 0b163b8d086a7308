"""The rival MaxEnt: a mixture that grows by one policy per round."""
