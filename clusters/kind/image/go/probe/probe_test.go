package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// tree makes files below a folder of its own.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func same(t *testing.T, found, wanted any) {
	t.Helper()
	if !reflect.DeepEqual(found, wanted) {
		t.Errorf("found %#v, wanted %#v", found, wanted)
	}
}

func TestLimitsOfVersionOne(t *testing.T) {
	root := tree(t, map[string]string{
		"sys/fs/cgroup/memory/memory.limit_in_bytes":       "67108864\n",
		"sys/fs/cgroup/cpu/cpu.cfs_quota_us":               "50000\n",
		"sys/fs/cgroup/cpu/cpu.cfs_period_us":              "100000\n",
		"sys/fs/cgroup/cpu/cpu.shares":                     "512\n",
		"sys/fs/cgroup/cpuset/cpuset.cpus":                 "0-1\n",
		"sys/fs/cgroup/cpuset/cpuset.mems":                 "0\n",
		"sys/fs/cgroup/hugetlb/hugetlb.2MB.limit_in_bytes": "4194304\n",
		"sys/fs/cgroup/hugetlb/hugetlb.1GB.limit_in_bytes": "9223372036854771712\n",
	})
	same(t, limits(root), map[string]any{
		"memory": int64(67108864), "cpuQuota": int64(50000), "cpuPeriod": int64(100000), "cpuShares": int64(512),
		"cpusetCpus": "0-1", "cpusetMems": "0", "hugepages-2MB": int64(4194304),
	})
}

func TestNoLimitsOfVersionOne(t *testing.T) {
	root := tree(t, map[string]string{
		"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		"sys/fs/cgroup/cpu/cpu.cfs_quota_us":         "-1\n",
		"sys/fs/cgroup/cpu/cpu.shares":               "1024\n",
	})
	same(t, limits(root), map[string]any{})
}

// The tree is made after the kernel's documentation of version 2.
func TestLimitsOfVersionTwo(t *testing.T) {
	root := tree(t, map[string]string{
		"sys/fs/cgroup/cgroup.controllers":   "cpuset cpu io memory hugetlb pids\n",
		"proc/self/cgroup":                   "0::/\n",
		"sys/fs/cgroup/memory.max":           "67108864\n",
		"sys/fs/cgroup/cpu.max":              "50000 100000\n",
		"sys/fs/cgroup/cpu.weight":           "20\n",
		"sys/fs/cgroup/cpuset.cpus":          "\n",
		"sys/fs/cgroup/hugetlb.2MB.max":      "4194304\n",
		"sys/fs/cgroup/hugetlb.2MB.rsvd.max": "4194304\n",
		"sys/fs/cgroup/hugetlb.1GB.max":      "max\n",
	})
	same(t, limits(root), map[string]any{
		"memory": int64(67108864), "cpuQuota": int64(50000), "cpuPeriod": int64(100000), "cpuShares": int64(501),
		"hugepages-2MB": int64(4194304),
	})
}

func TestNoLimitsOfVersionTwo(t *testing.T) {
	root := tree(t, map[string]string{
		"sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
		"sys/fs/cgroup/memory.max":         "max\n",
		"sys/fs/cgroup/cpu.max":            "max 100000\n",
	})
	same(t, limits(root), map[string]any{"cpuPeriod": int64(100000)})
}

func TestCgroupOfAProcessWithoutNamespace(t *testing.T) {
	root := tree(t, map[string]string{
		"sys/fs/cgroup/cgroup.controllers":       "memory\n",
		"proc/self/cgroup":                       "0::/kubepods/pod1\n",
		"sys/fs/cgroup/kubepods/pod1/memory.max": "1048576\n",
	})
	same(t, limits(root), map[string]any{"memory": int64(1048576)})
}

func TestMountsThatSomebodyAskedFor(t *testing.T) {
	root := tree(t, map[string]string{"proc/self/mountinfo": strings.Join([]string{
		"1 0 0:1 / / rw - overlay overlay rw",
		"2 1 0:2 / /proc rw - proc proc rw",
		"3 1 0:3 / /dev rw - tmpfs tmpfs rw",
		"4 3 0:4 / /dev/shm rw - tmpfs shm rw",
		"5 1 254:0 /var/lib/kubelet/pods/1/etc-hosts /etc/hosts rw,relatime - ext4 /dev/vda rw",
		"6 1 254:0 /opt/a\\040b /usr/lib/x ro,nosuid master:7 - ext4 /dev/vda rw",
		"7 1 0:9 / /scratch rw - tmpfs tmpfs rw,size=1024k",
	}, "\n")})
	same(t, mounts(root), []mount{
		{"/etc/hosts", "/var/lib/kubelet/pods/1/etc-hosts", "bind", []string{"rw", "relatime", "rprivate"}},
		{"/usr/lib/x", "/opt/a b", "bind", []string{"ro", "nosuid", "rslave"}},
		{"/scratch", "tmpfs", "tmpfs", []string{"rw", "rprivate"}},
	})
}

func TestDeviceRules(t *testing.T) {
	root := tree(t, map[string]string{"list": "c 195:* rw\nc 195:0 m\nb *:* m\n"})
	rules, known := readRules(filepath.Join(root, "list"))
	same(t, known, true)
	same(t, allowed(rules, device{Type: "c", Major: 195, Minor: 0}), "rwm")
	same(t, allowed(rules, device{Type: "c", Major: 195, Minor: 1}), "rw")
	same(t, allowed(rules, device{Type: "c", Major: 1, Minor: 3}), "")
	same(t, allowed(rules, device{Type: "b", Major: 8, Minor: 0}), "m")
}

func TestPrivilegedMayDoEverything(t *testing.T) {
	same(t, allowed([]rule{{"a", "*", "*", "rwm"}}, device{Type: "b", Major: 8}), "rwm")
}

func TestDocument(t *testing.T) {
	var found map[string]any
	if err := json.Unmarshal([]byte(document(t.TempDir())), &found); err != nil {
		t.Fatal(err)
	}
	same(t, found["kind"], "ContainerProbe")
	same(t, found["schemaVersion"], 1.0)
	same(t, found["hooks"], nil)
	same(t, found["devices"], []any{})
}

func TestGpusInTheOrderOfTheirAddresses(t *testing.T) {
	same(t, gpus([]string{
		"GPU_DEVICE_0_UUID=b", "GPU_DEVICE_0_PCI_BUS_ID=2", "GPU_DEVICE_1_UUID=a", "GPU_DEVICE_1_PCI_BUS_ID=1",
		"GPU_DEVICE_1_PRODUCT_NAME=X", "GPU_DEVICE_2_UUID=", "UUID=c",
	}), []gpu{{"X", "a", "1"}, {"NVIDIA GPU", "b", "2"}})
}

func TestDurations(t *testing.T) {
	for text, wanted := range map[string]time.Duration{
		"5": 5 * time.Second, "0.5": 500 * time.Millisecond, "1.5h": 90 * time.Minute, "2d": 48 * time.Hour,
		"infinity": forever, "9999999999999999": forever,
	} {
		found, err := duration(text)
		same(t, err, nil)
		same(t, found, wanted)
	}
	for _, text := range []string{"", "x", "1x", "-1", "1e3", "nan", "s"} {
		if _, err := duration(text); err == nil {
			t.Errorf("%q was taken for a duration", text)
		}
	}
}

// run runs a command and returns its exit code and what it wrote.
func run(name string, arguments ...string) (int, string, string) {
	var stdout, stderr bytes.Buffer
	c := &call{name: name, arguments: arguments, stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr}
	code := commands[name](c)
	return code, stdout.String(), stderr.String()
}

func TestScripts(t *testing.T) {
	for script, wanted := range map[string]struct {
		code   int
		stdout string
	}{
		"echo a; exit 3":                                        {3, "a\n"},
		"trap 'echo bye' EXIT; echo a":                          {0, "a\nbye\n"},
		"trap 'echo t; exit 4' TERM; kill $$; wait; echo no":    {4, "t\n"},
		"trap 'echo t' USR1; kill -USR1 $$; wait; echo $?":      {0, "t\n138\n"},
		"trap '' TERM; kill $$; echo lives":                     {0, "lives\n"},
		"set -e; false; echo no":                                {1, ""},
		"for i in 1 2; do echo $i; done | { read a; echo $a; }": {0, "1\n"},
		"no-such-command; echo $?":                              {0, "127\n"},
		"nvidia-smi -L; echo $?":                                {0, "127\n"},
		"if":                                                    {2, ""},
	} {
		code, stdout, stderr := run("sh", "-c", script)
		if code != wanted.code || stdout != wanted.stdout {
			t.Errorf("%s: code %d, output %q, errors %q", script, code, stdout, stderr)
		}
	}
}

func TestExportPrintsAsTheShellDoes(t *testing.T) {
	t.Setenv("A_VALUE", `it's "x"`)
	_, dash, _ := run("sh", "-c", "export")
	_, bash, _ := run("bash", "-c", "export -p")
	for text, line := range map[string]string{
		dash: `export A_VALUE='it'"'"'s "x"'`, bash: `declare -x A_VALUE="it's \"x\""`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%q is not in %q", line, text)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for line, wanted := range map[string]int{
		"probe --what": 2, "probe --exit 256": 2, "probe --for x": 2, "exit x": 2, "exit 7": 7, "sleep": 1, "sleep x": 1,
		"tail x": 2, "date +%Y": 2, "ls -l": 2, "ls /no/such": 2, "cat /no/such": 1, "printenv NO_SUCH_NAME": 1,
	} {
		words := strings.Fields(line)
		if code, _, _ := run(words[0], words[1:]...); code != wanted {
			t.Errorf("%s: exit code %d", line, code)
		}
	}
}
