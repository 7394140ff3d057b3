package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

type device struct {
	Path     string `json:"path"`
	Type     string `json:"type"`
	Major    uint32 `json:"major"`
	Minor    uint32 `json:"minor"`
	FileMode uint32 `json:"fileMode"`
	UID      uint32 `json:"uid"`
	GID      uint32 `json:"gid"`
	Access   string `json:"access"`
}

// usual are the device nodes that an OCI runtime makes in every container.
var usual = map[string]bool{
	"null": true, "zero": true, "full": true, "random": true, "urandom": true, "tty": true, "console": true, "ptmx": true,
}

// devices are the nodes below /dev that somebody asked for, with what the device cgroup allows.
func devices(root string) []device {
	base := filepath.Join(root, "dev")
	rules, known := readRules(filepath.Join(root, "sys/fs/cgroup/devices/devices.list"))
	found := []device{}
	filepath.WalkDir(base, func(path string, entry fs.DirEntry, err error) error {
		name, _ := filepath.Rel(base, path)
		if err != nil || (entry.IsDir() && (name == "pts" || name == "shm" || name == "mqueue")) {
			return fs.SkipDir
		}
		kind := kindOf(entry.Type())
		if kind == "" || usual[name] {
			return nil
		}
		var status syscall.Stat_t
		if syscall.Lstat(path, &status) != nil {
			return nil
		}
		one := device{
			Path: "/dev/" + name, Type: kind, FileMode: status.Mode & 0o7777, UID: status.Uid, GID: status.Gid,
		}
		if kind != "p" {
			one.Major, one.Minor = unix.Major(status.Rdev), unix.Minor(status.Rdev)
			if known {
				one.Access = allowed(rules, one)
			} else {
				one.Access = tried(path, status)
			}
		}
		found = append(found, one)
		return nil
	})
	return found
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeCharDevice != 0:
		return "c"
	case mode&fs.ModeDevice != 0:
		return "b"
	case mode&fs.ModeNamedPipe != 0:
		return "p"
	}
	return ""
}

type rule struct{ kind, major, minor, access string }

// readRules reads the device cgroup of version 1, which lists what is allowed: "c 195:* rwm".
func readRules(path string) ([]rule, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, false
	}
	var rules []rule
	for _, line := range strings.Split(string(data), "\n") {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		major, minor, _ := strings.Cut(fields[1], ":")
		rules = append(rules, rule{fields[0], major, minor, fields[2]})
	}
	return rules, true
}

func allowed(rules []rule, one device) string {
	fits := func(pattern string, value uint32) bool {
		return pattern == "*" || pattern == strconv.FormatUint(uint64(value), 10)
	}
	letters := ""
	for _, letter := range "rwm" {
		for _, rule := range rules {
			if (rule.kind == "a" || rule.kind == one.Type) && fits(rule.major, one.Major) &&
				fits(rule.minor, one.Minor) && strings.ContainsRune(rule.access, letter) {
				letters += string(letter)
				break
			}
		}
	}
	return letters
}

// tried finds out by trying what is allowed: version 2 of cgroups has a program for it, which cannot be read. Whatever
// refuses for another reason than the cgroup (no driver behind the numbers, permissions of the file) counts as allowed.
func tried(path string, status syscall.Stat_t) string {
	letters := ""
	for _, try := range []struct {
		letter string
		flag   int
	}{{"r", unix.O_RDONLY}, {"w", unix.O_WRONLY}} {
		handle, err := unix.Open(path, try.flag|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(handle)
		}
		if !errors.Is(err, unix.EPERM) {
			letters += try.letter
		}
	}
	folder, err := os.MkdirTemp("", "probe-")
	if err != nil {
		return letters
	}
	defer os.RemoveAll(folder)
	if unix.Mknod(filepath.Join(folder, "node"), status.Mode&unix.S_IFMT|0o600, int(status.Rdev)) == nil {
		letters += "m"
	}
	return letters
}
