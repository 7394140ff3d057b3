//go:build tools

// Package tools names the command that is built of cri-tools, so that its modules are pinned.
package tools

import _ "sigs.k8s.io/cri-tools/cmd/crictl"
