//go:build tools

// Package tools names the command that is built of etcd, so that its modules are pinned.
package tools

import _ "go.etcd.io/etcd/server/v3"
