// The oracle answers what Kubernetes answers: one JSON line in, one JSON line out, in order.
//
//	oracle allocate   lines of `drakit allocate --jsonl`
//	oracle time       the same with "nodes" and "repeat"; how long the calls take
//	oracle cel        lines of `drakit cel --jsonl`
//
// -allocators is passed to structured.EnableAllocators; "scheduler" leaves the choice to upstream, as a scheduler does.
// -limit ends a single allocation, as the filter timeout of a scheduler does.
// A line that cannot be read is answered with {"input": problem}.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/dynamic-resource-allocation/structured"
)

// answer computes the answer to one line; an error means that the line cannot be read.
type answer func(line []byte) (any, error)

var (
	flags      = flag.NewFlagSet("oracle", flag.ExitOnError)
	allocators = flags.String("allocators", "experimental", `names of allocators separated by commas, or "scheduler"`)
	limit      = flags.Duration("limit", time.Hour, "how long an allocation may take")
)

func main() {
	if len(os.Args) < 2 {
		fail(fmt.Errorf("usage: oracle allocate|time|cel [-allocators NAMES] [-limit DURATION]"))
	}
	if err := flags.Parse(os.Args[2:]); err != nil {
		fail(err)
	}
	if *allocators != "scheduler" {
		structured.EnableAllocators(strings.Split(*allocators, ",")...)
	}
	modes := map[string]answer{"allocate": allocate, "time": measure, "cel": evaluate}
	mode, known := modes[os.Args[1]]
	if !known {
		fail(fmt.Errorf("unknown command %q", os.Args[1]))
	}
	if err := serve(os.Stdin, os.Stdout, mode); err != nil {
		fail(err)
	}
}

// serve answers until the input ends. Answers leave when no further line waits.
func serve(input io.Reader, output io.Writer, mode answer) error {
	lines := bufio.NewReaderSize(input, 1<<20)
	answers := bufio.NewWriterSize(output, 1<<20)
	defer answers.Flush()
	encoder := json.NewEncoder(answers)
	encoder.SetEscapeHTML(false)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			given, problem := mode(line)
			if problem != nil {
				given = map[string]string{"input": problem.Error()}
			}
			if err := encoder.Encode(given); err != nil {
				return err
			}
			if lines.Buffered() == 0 {
				if err := answers.Flush(); err != nil {
					return err
				}
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "oracle:", err)
	os.Exit(1)
}
