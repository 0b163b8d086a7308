"""Many environments instead of one (alpha-MEPOL): a policy for all of them, judged by the lowest share."""
