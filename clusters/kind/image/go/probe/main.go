// probe is what runs in containers of tests: one static program that is called by many names. As `probe` it prints what
// its container sees, in one line of JSON; as `sh` and `bash` it runs scripts; and it knows the small commands that
// those need.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path"
	"syscall"
)

// notFound is the exit code that shells have for a command that is not there.
const notFound = 127

func main() {
	arguments := os.Args
	name := path.Base(arguments[0])
	if os.Getpid() == 1 {
		// Process 1 does not die of signals that it has no handler for; Go's default would let it.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	}
	call := &call{name: name, arguments: arguments[1:], stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	command, known := commands[name]
	if !known {
		fmt.Fprintf(os.Stderr, "%s: there is no such command in this image\n", name)
		os.Exit(notFound)
	}
	os.Exit(command(call))
}
