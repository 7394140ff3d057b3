//go:build tools

// Package tools names the command that is built of kind, so that its modules are pinned.
package tools

import _ "sigs.k8s.io/kind"
