package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

type mount struct {
	Destination string   `json:"destination"`
	Source      string   `json:"source"`
	Type        string   `json:"type"`
	Options     []string `json:"options"`
}

// ofTheRuntime are the places where a container runtime mounts something in every container.
var ofTheRuntime = []string{
	"/proc", "/sys", "/dev/pts", "/dev/mqueue", "/dev/shm", "/etc/hostname", "/etc/resolv.conf",
}

var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mounts are those that somebody asked for. A source is the path in the file system that is mounted, which is all that
// a container can tell of a folder of the host; the type is "bind" where only a part of one is mounted.
func mounts(root string) []mount {
	data, _ := os.ReadFile(filepath.Join(root, "proc/self/mountinfo"))
	found := []mount{}
	for _, line := range strings.Split(string(data), "\n") {
		// 36 35 98:0 /part /place rw,noatime shared:1 - ext4 /dev/root rw,errors=continue
		front, back, there := strings.Cut(line, " - ")
		fields, rest := strings.Fields(front), strings.Fields(back)
		if !there || len(fields) < 6 || len(rest) < 2 {
			continue
		}
		one := mount{
			Destination: escapes.Replace(fields[4]),
			Source:      escapes.Replace(fields[3]),
			Type:        "bind",
			Options:     options(fields[5], fields[6:]),
		}
		if standard(one.Destination, rest[0]) {
			continue
		}
		if one.Source == "/" && rest[0] != "ext4" && rest[0] != "xfs" && rest[0] != "btrfs" {
			one.Source, one.Type = escapes.Replace(rest[1]), rest[0]
		}
		found = append(found, one)
	}
	return found
}

func standard(destination, kind string) bool {
	if destination == "/" || destination == "/dev" {
		return true
	}
	for _, place := range ofTheRuntime {
		if destination == place || strings.HasPrefix(destination, place+"/") {
			return true
		}
	}
	// The console of a container with a terminal.
	return destination == "/dev/console" && kind == "devpts"
}

func options(flags string, optional []string) []string {
	found := strings.Split(flags, ",")
	propagation := "rprivate"
	for _, entry := range optional {
		switch {
		case strings.HasPrefix(entry, "shared:"):
			propagation = "rshared"
		case strings.HasPrefix(entry, "master:") && propagation != "rshared":
			propagation = "rslave"
		}
	}
	return append(found, propagation)
}

// number reads a file with one number; false for none, and for the word "max".
func number(path string) (int64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	value, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	return value, err == nil
}
