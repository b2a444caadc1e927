"""From a call to its result: promote, plan, allocate, launch, bump the version, record history."""
