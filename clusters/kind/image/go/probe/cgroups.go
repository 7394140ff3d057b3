package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// noLimit is where version 1 of cgroups begins to mean that memory is not limited: the highest count of pages.
const noLimit = 1 << 62

// defaultShares are the CPU shares of a cgroup that nobody has given any; kubelets give 2 to containers without a
// request, as it is the least.
const defaultShares = 1024

// limits reads the resource limits of the container from its cgroups, whichever version they have.
func limits(root string) map[string]any {
	base := filepath.Join(root, "sys/fs/cgroup")
	if _, err := os.Stat(filepath.Join(base, "cgroup.controllers")); err == nil {
		return limitsV2(filepath.Join(base, ownCgroup(root, base)))
	}
	return limitsV1(base)
}

// ownCgroup is the path of this process' cgroup below the mount: "/" where it has a namespace of its own.
func ownCgroup(root, base string) string {
	data, _ := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	for _, line := range strings.Split(string(data), "\n") {
		if path, there := strings.CutPrefix(line, "0::"); there {
			if _, err := os.Stat(filepath.Join(base, path)); err == nil && !strings.Contains(path, "..") {
				return path
			}
		}
	}
	return "/"
}

func limitsV1(base string) map[string]any {
	found := map[string]any{}
	add := func(name, file string, unlimited func(int64) bool) {
		if value, there := number(filepath.Join(base, file)); there && !unlimited(value) {
			found[name] = value
		}
	}
	add("memory", "memory/memory.limit_in_bytes", func(value int64) bool { return value >= noLimit })
	add("cpuQuota", "cpu/cpu.cfs_quota_us", func(value int64) bool { return value <= 0 })
	add("cpuPeriod", "cpu/cpu.cfs_period_us", func(int64) bool { return false })
	add("cpuShares", "cpu/cpu.shares", func(value int64) bool { return value == defaultShares })
	addWord(found, "cpusetCpus", filepath.Join(base, "cpuset/cpuset.cpus"))
	addWord(found, "cpusetMems", filepath.Join(base, "cpuset/cpuset.mems"))
	addHugepages(found, filepath.Join(base, "hugetlb"), ".limit_in_bytes")
	return found
}

func limitsV2(folder string) map[string]any {
	found := map[string]any{}
	if value, there := number(filepath.Join(folder, "memory.max")); there {
		found["memory"] = value
	}
	data, _ := os.ReadFile(filepath.Join(folder, "cpu.max"))
	if fields := strings.Fields(string(data)); len(fields) == 2 {
		if quota, err := strconv.ParseInt(fields[0], 10, 64); err == nil {
			found["cpuQuota"] = quota
		}
		if period, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			found["cpuPeriod"] = period
		}
	}
	if weight, there := number(filepath.Join(folder, "cpu.weight")); there && weight > 0 {
		// The inverse of what runtimes make of shares: 1 + (shares - 2) * 9999 / 262142.
		if shares := 2 + ((weight-1)*262142+9998)/9999; shares != defaultShares {
			found["cpuShares"] = shares
		}
	}
	addWord(found, "cpusetCpus", filepath.Join(folder, "cpuset.cpus"))
	addWord(found, "cpusetMems", filepath.Join(folder, "cpuset.mems"))
	addHugepages(found, folder, ".max")
	return found
}

func addWord(found map[string]any, name, path string) {
	data, err := os.ReadFile(path)
	if word := strings.TrimSpace(string(data)); err == nil && word != "" {
		found[name] = word
	}
}

// addHugepages adds limits by the names that cgroups have for page sizes: hugepages-2MB.
func addHugepages(found map[string]any, folder, suffix string) {
	files, _ := filepath.Glob(filepath.Join(folder, "hugetlb.*"+suffix))
	for _, file := range files {
		size := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "hugetlb."), suffix)
		if strings.Contains(size, ".") {
			continue
		}
		if value, there := number(file); there && value < noLimit {
			found["hugepages-"+size] = value
		}
	}
}
