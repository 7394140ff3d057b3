module drakit/clusters/kind/image/probe

go 1.26.0

require (
	golang.org/x/sys v0.47.0
	mvdan.cc/sh/v3 v3.14.1
)

require golang.org/x/term v0.45.0 // indirect
