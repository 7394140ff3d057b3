// Package goclient holds tests of a cluster with unmodified client-go: KUBECONFIG says which one.
package goclient
