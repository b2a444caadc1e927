"""The operator table: rows declare what an operator is; nothing here computes."""
