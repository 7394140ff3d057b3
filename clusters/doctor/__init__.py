"""What a host or a cluster lacks, and how to mend it: checks as data, each a look and a judgement (docs/doctor.md)."""
