package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// call is a command with its arguments (without its name) and its streams.
type call struct {
	name           string
	arguments      []string
	stdin          io.Reader
	stdout, stderr io.Writer
}

// fail says what is wrong and returns the exit code.
func (c *call) fail(code int, format string, values ...any) int {
	fmt.Fprintf(c.stderr, c.name+": "+format+"\n", values...)
	return code
}

var commands map[string]func(*call) int

func init() {
	commands = map[string]func(*call) int{
		"probe": probe, "sleep": sleep, "exit": exit, "env": printAll, "printenv": printenv, "echo": echo,
		"true": func(*call) int { return 0 }, "false": func(*call) int { return 1 }, "cat": cat,
		"hostname": hostname, "tail": tail, "date": date, "ls": ls, "nvidia-smi": nvidiaSmi, "pause": pause,
		"sh": shell, "bash": shell, "dash": shell, "ash": shell,
	}
}

func stopSignal() <-chan os.Signal {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	return stop
}

func probe(c *call) int {
	code, ends, limit := 0, false, time.Duration(-1)
	words := c.arguments
	for len(words) > 0 {
		option, value, given := strings.Cut(words[0], "=")
		words = words[1:]
		if option != "--exit" && option != "--for" {
			return c.fail(2, "unknown option %s; known: --exit CODE, --for SECONDS", option)
		}
		if !given && len(words) > 0 {
			value, words = words[0], words[1:]
		}
		var err error
		if option == "--exit" {
			code, err = exitCode(value)
			ends = true
		} else if limit, err = duration(value); err != nil {
			err = fmt.Errorf("'%s' is no duration; use seconds, or a number with s, m, h or d", value)
		}
		if err != nil {
			return c.fail(2, "%v", err)
		}
	}
	stop := stopSignal()
	fmt.Fprintln(c.stdout, document("/"))
	if limit >= 0 {
		select {
		case <-stop:
			return 0
		case <-time.After(limit):
			return code
		}
	}
	if !ends {
		<-stop
	}
	return code
}

func exitCode(text string) (int, error) {
	code, err := strconv.ParseUint(text, 10, 16)
	if err != nil || code > 255 {
		return 0, fmt.Errorf("'%s' is no exit code; use 0 to 255", text)
	}
	return int(code), nil
}

var units = map[byte]float64{'s': 1, 'm': 60, 'h': 3600, 'd': 86400}

const forever = 1 << 62 * time.Nanosecond

// duration reads what sleep of coreutils reads: 5, 1.5h, infinity.
func duration(text string) (time.Duration, error) {
	if lower := strings.ToLower(text); lower == "inf" || lower == "infinity" {
		return forever, nil
	}
	number, unit := text, 1.0
	if text != "" && units[text[len(text)-1]] != 0 {
		number, unit = text[:len(text)-1], units[text[len(text)-1]]
	}
	if strings.Trim(number, "0123456789.") != "" {
		return 0, errors.New(text)
	}
	value, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, errors.New(text)
	}
	seconds := value * unit * float64(time.Second)
	if seconds >= float64(forever) {
		return forever, nil
	}
	return time.Duration(seconds), nil
}

func sleep(c *call) int {
	const hint = "\nTry 'sleep --help' for more information."
	if len(c.arguments) == 0 {
		return c.fail(1, "missing operand"+hint)
	}
	var total time.Duration
	for _, text := range c.arguments {
		one, err := duration(text)
		if err != nil {
			return c.fail(1, "invalid time interval ‘%s’"+hint, text)
		}
		if total += one; total < 0 {
			total = forever
		}
	}
	time.Sleep(total)
	return 0
}

func exit(c *call) int {
	if len(c.arguments) == 0 {
		return 0
	}
	code, err := exitCode(c.arguments[0])
	if err != nil {
		return c.fail(2, "%v", err)
	}
	return code
}

func printAll(c *call) int {
	for _, entry := range os.Environ() {
		fmt.Fprintln(c.stdout, entry)
	}
	return 0
}

func printenv(c *call) int {
	if len(c.arguments) == 0 {
		return printAll(c)
	}
	code := 0
	for _, name := range c.arguments {
		if value, there := os.LookupEnv(name); there {
			fmt.Fprintln(c.stdout, value)
		} else {
			code = 1
		}
	}
	return code
}

func echo(c *call) int {
	words, end := c.arguments, "\n"
	if len(words) > 0 && words[0] == "-n" {
		words, end = words[1:], ""
	}
	fmt.Fprint(c.stdout, strings.Join(words, " ")+end)
	return 0
}

// reason is the text of the error that the system gave, as C programs print it.
func reason(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		text := number.Error()
		return strings.ToUpper(text[:1]) + text[1:]
	}
	return err.Error()
}

func cat(c *call) int {
	if len(c.arguments) == 0 {
		io.Copy(c.stdout, c.stdin)
		return 0
	}
	code := 0
	for _, name := range c.arguments {
		file, err := os.Open(name)
		if err == nil {
			_, err = io.Copy(c.stdout, file)
			file.Close()
		}
		if err != nil {
			code = c.fail(1, "%s: %s", name, reason(err))
		}
	}
	return code
}

func hostname(c *call) int {
	name, err := os.Hostname()
	if err != nil {
		return c.fail(1, "%v", err)
	}
	fmt.Fprintln(c.stdout, name)
	return 0
}

func tail(c *call) int {
	if line := strings.Join(c.arguments, " "); line != "-f /dev/null" && line != "-F /dev/null" {
		return c.fail(2, "only -f /dev/null is known")
	}
	time.Sleep(forever)
	return 0
}

func date(c *call) int {
	now := time.Now().UTC()
	switch strings.Join(c.arguments, " ") {
	case "":
		fmt.Fprintln(c.stdout, now.Format("Mon Jan _2 15:04:05 UTC 2006"))
	case "+%s":
		fmt.Fprintln(c.stdout, now.Unix())
	default:
		return c.fail(2, "only the form without arguments and +%%s are known")
	}
	return 0
}

func ls(c *call) int {
	paths, code := c.arguments, 0
	if len(paths) == 0 {
		paths = []string{"."}
	}
	for _, path := range paths {
		if strings.HasPrefix(path, "-") {
			return c.fail(2, "options are not known")
		}
	}
	for _, path := range paths {
		found, err := os.Stat(path)
		if err != nil {
			code = c.fail(2, "cannot access '%s': %s", path, reason(err))
			continue
		}
		if !found.IsDir() {
			fmt.Fprintln(c.stdout, path)
			continue
		}
		if len(paths) > 1 {
			fmt.Fprintf(c.stdout, "%s:\n", path)
		}
		entries, _ := filepath.Glob(filepath.Join(path, "*"))
		sort.Strings(entries)
		for _, entry := range entries {
			if name := filepath.Base(entry); !strings.HasPrefix(name, ".") {
				fmt.Fprintln(c.stdout, name)
			}
		}
	}
	return code
}

func pause(*call) int {
	stop := stopSignal()
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for {
		select {
		case <-stop:
			return 0
		case <-children:
			reap()
		}
	}
}

// reap buries what has ended and was left to this process.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}
