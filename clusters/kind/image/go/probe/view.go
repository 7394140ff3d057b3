package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

const (
	documentKind    = "ContainerProbe"
	documentVersion = 1
)

// document is what the container sees, as one line of JSON; root is where /proc, /sys and /dev are found.
func document(root string) string {
	host, _ := os.Hostname()
	folder, _ := os.Getwd()
	groups, _ := os.Getgroups()
	if groups == nil {
		groups = []int{}
	}
	environment := map[string]string{}
	for _, entry := range os.Environ() {
		name, value, _ := strings.Cut(entry, "=")
		environment[name] = value
	}
	text, _ := json.Marshal(map[string]any{
		"kind":             documentKind,
		"schemaVersion":    documentVersion,
		"hostname":         host,
		"arguments":        arguments(root),
		"workingDirectory": folder,
		"user":             map[string]any{"uid": os.Getuid(), "gid": os.Getgid(), "groups": groups},
		"environment":      environment,
		"devices":          devices(root),
		"mounts":           mounts(root),
		"limits":           limits(root),
		// What was done to a container before its program started cannot be seen from inside.
		"hooks":      nil,
		"intelRdt":   nil,
		"netDevices": map[string]string{},
		"cdiDevices": nil,
	})
	return string(text)
}

// arguments is the command line of the container, also for a probe that a script in it has started.
func arguments(root string) []string {
	data, err := os.ReadFile(filepath.Join(root, "proc/1/cmdline"))
	line := strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
	if err != nil || os.Getpid() == 1 || line[0] == "/pause" {
		return os.Args
	}
	return line
}
