package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

const (
	usageError = 2
	signalled  = 128
	// settle is how long no child may run before a wait counts as over: between two commands of a child there is none.
	settle = 50 * time.Millisecond
	look   = 10 * time.Millisecond
	// Commands that scripts have by other names.
	printExports, sendSignal = "print-exports", "send-signal"
)

var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "TERM": syscall.SIGTERM,
}

// signalOf reads the name or the number of a signal.
func signalOf(word string) (syscall.Signal, bool) {
	if number, err := strconv.Atoi(word); err == nil {
		return syscall.Signal(number), true
	}
	found, known := signals[strings.TrimPrefix(strings.ToUpper(word), "SIG")]
	return found, known
}

// script is a shell that runs one script. The interpreter knows no signals, so that traps for them, the waiting that
// they end, and kill are its own.
type script struct {
	call    *call
	traps   map[syscall.Signal]string
	arrived chan os.Signal
	running atomic.Int32
}

func shell(c *call) int {
	file, arguments, options, code := readShell(c)
	if code >= 0 {
		return code
	}
	text := c.stdin
	if file == "" && len(arguments) > 0 {
		text = strings.NewReader(arguments[0])
		arguments = arguments[1:]
	}
	name := c.name
	if file != "" {
		opened, err := os.Open(file)
		if err != nil {
			return c.fail(notFound, "%s: %s", file, reason(err))
		}
		defer opened.Close()
		text, name = opened, file
	} else if len(arguments) > 0 {
		name, arguments = arguments[0], arguments[1:]
	}
	s := &script{call: c, traps: map[syscall.Signal]string{}, arrived: make(chan os.Signal, 8)}
	return s.run(name, text, append(options, append([]string{"--"}, arguments...)...))
}

// readShell reads the command line: the script's file, or the text of -c as first of the arguments, and the options
// that are for the interpreter. A code that is not negative ends the shell.
func readShell(c *call) (file string, arguments, options []string, code int) {
	words, wanted := c.arguments, false
	for len(words) > 0 && len(words[0]) > 1 && strings.ContainsAny(words[0][:1], "-+") {
		word := words[0]
		words = words[1:]
		if word == "--" {
			break
		}
		if strings.HasPrefix(word, "--") {
			continue
		}
		for _, letter := range word[1:] {
			switch {
			case letter == 'c':
				wanted = true
			case letter == 'o' && len(words) > 0:
				options = append(options, word[:1]+"o", words[0])
				words = words[1:]
			case strings.ContainsRune("eux", letter):
				options = append(options, word[:1]+string(letter))
			}
		}
	}
	if !wanted {
		if len(words) == 0 {
			return "", nil, options, -1
		}
		return words[0], words[1:], options, -1
	}
	if len(words) == 0 {
		return "", nil, nil, c.fail(usageError, "-c: option requires an argument")
	}
	return "", words, options, -1
}

func (s *script) run(name string, text io.Reader, parameters []string) int {
	parsed, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(text, name)
	if err != nil {
		return s.call.fail(usageError, "%v", err)
	}
	replaceExports(parsed)
	runner, err := interp.New(
		interp.StdIO(os.Stdin, s.call.stdout, s.call.stderr),
		interp.Params(parameters...),
		interp.CallHandler(s.before),
		interp.ExecHandlers(s.execute),
	)
	if err != nil {
		return s.call.fail(usageError, "%v", err)
	}
	err = runner.Run(context.Background(), parsed)
	var status interp.ExitStatus
	if errors.As(err, &status) {
		return int(status)
	}
	if err != nil {
		return s.call.fail(1, "%v", err)
	}
	return 0
}

// replaceExports lets `export` alone print what there is, which the interpreter does not.
func replaceExports(parsed *syntax.File) {
	syntax.Walk(parsed, func(node syntax.Node) bool {
		if statement, is := node.(*syntax.Stmt); is {
			if clause, is := statement.Cmd.(*syntax.DeclClause); is && clause.Variant.Value == "export" &&
				(len(clause.Args) == 0 || clause.Args[0].Naked && isWord(clause.Args[0].Value, "-p")) {
				word := &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{Value: printExports}}}
				statement.Cmd = &syntax.CallExpr{Args: []*syntax.Word{word}}
			}
		}
		return true
	})
}

func isWord(word *syntax.Word, text string) bool { return word != nil && word.Lit() == text }

// before is called before each command; what it returns is run in the place of it.
func (s *script) before(ctx context.Context, words []string) ([]string, error) {
	switch words[0] {
	case "trap":
		return s.trap(words)
	case "kill":
		// A builtin that the interpreter has reserved and not made.
		words = append([]string{sendSignal}, words[1:]...)
	case "wait":
		if len(words) == 1 && len(s.traps) > 0 {
			return s.wait(words), nil
		}
	}
	select {
	case received := <-s.arrived:
		return action(s.traps[received.(syscall.Signal)], words)
	default:
		return words, nil
	}
}

// action is the text of a trap and then the command that was about to run.
func action(text string, words []string) ([]string, error) {
	quoted := make([]string, len(words))
	for index, word := range words {
		one, err := syntax.Quote(word, syntax.LangBash)
		if err != nil {
			return nil, err
		}
		quoted[index] = one
	}
	return []string{"eval", text + "\n" + strings.Join(quoted, " ")}, nil
}

// trap keeps what is to be done for signals; EXIT and ERR, and the list of traps, are the interpreter's.
func (s *script) trap(words []string) ([]string, error) {
	rest := slices.DeleteFunc(slices.Clone(words[1:]), func(word string) bool { return word == "--" })
	if len(rest) == 0 {
		return words, nil
	}
	text, names := rest[0], rest[1:]
	if len(names) == 0 {
		// One word alone resets the trap of that signal.
		text, names = "-", rest
	}
	others := []string{}
	for _, name := range names {
		number, known := signalOf(name)
		if !known || number == 0 {
			others = append(others, strings.Replace(name, "0", "EXIT", 1))
			continue
		}
		switch text {
		case "-":
			delete(s.traps, number)
			signal.Reset(number)
		default:
			s.traps[number] = text
			signal.Notify(s.arrived, number)
		}
	}
	if len(others) == 0 {
		return []string{"true"}, nil
	}
	return append([]string{"trap", text}, others...), nil
}

// wait waits for the children, or for a signal with a trap, which ends it.
func (s *script) wait(words []string) []string {
	quiet := time.Now()
	for time.Since(quiet) < settle {
		select {
		case received := <-s.arrived:
			number := received.(syscall.Signal)
			if s.traps[number] == "" {
				continue
			}
			return []string{"eval", fmt.Sprintf("%s\n(exit %d)", s.traps[number], signalled+int(number))}
		case <-time.After(look):
			if s.running.Load() > 0 {
				quiet = time.Now()
			}
		}
	}
	return words
}

// execute runs a command that is no builtin of the interpreter.
func (s *script) execute(next interp.ExecHandlerFunc) interp.ExecHandlerFunc {
	return func(ctx context.Context, words []string) error {
		hc := interp.HandlerCtx(ctx)
		switch words[0] {
		case printExports:
			return s.exports(hc)
		case sendSignal:
			return s.kill(hc, words[1:])
		case "nvidia-smi":
			if len(gpus(exported(hc))) == 0 {
				fmt.Fprintf(hc.Stderr, "%s: nvidia-smi: %s\n", s.call.name, "command not found")
				return interp.ExitStatus(notFound)
			}
		}
		if _, err := interp.LookPathDir(hc.Dir, hc.Env, words[0]); err != nil {
			fmt.Fprintf(hc.Stderr, "%s: %s: command not found\n", s.call.name, words[0])
			return interp.ExitStatus(notFound)
		}
		s.running.Add(1)
		defer s.running.Add(-1)
		return next(ctx, words)
	}
}

// exported are the variables that commands get.
func exported(hc interp.HandlerContext) []string {
	var found []string
	for name, value := range hc.Env.Each {
		if value.Exported && value.IsSet() {
			found = append(found, name+"="+value.String())
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

var (
	inQuotes  = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`")
	inSingles = strings.NewReplacer(`'`, `'"'"'`)
)

// exports prints the variables as `export` of bash and of dash do.
func (s *script) exports(hc interp.HandlerContext) error {
	for _, entry := range exported(hc) {
		name, value, _ := strings.Cut(entry, "=")
		if path.Base(s.call.name) == "bash" {
			fmt.Fprintf(hc.Stdout, "declare -x %s=\"%s\"\n", name, inQuotes.Replace(value))
		} else {
			fmt.Fprintf(hc.Stdout, "export %s='%s'\n", name, inSingles.Replace(value))
		}
	}
	return nil
}

func (s *script) trapped(number syscall.Signal) bool {
	_, found := s.traps[number]
	return found
}

func (s *script) kill(hc interp.HandlerContext, words []string) error {
	number := syscall.SIGTERM
	if len(words) > 0 && strings.HasPrefix(words[0], "-") {
		word := words[0][1:]
		words = words[1:]
		if word == "s" && len(words) > 0 {
			word, words = words[0], words[1:]
		}
		found, known := signalOf(word)
		if !known {
			fmt.Fprintf(hc.Stderr, "%s: kill: %s: invalid signal specification\n", s.call.name, word)
			return interp.ExitStatus(1)
		}
		number = found
	}
	code := 0
	for _, word := range words {
		pid, err := strconv.Atoi(word)
		switch {
		case err != nil:
			err = syscall.ESRCH
		case pid == os.Getpid() && s.trapped(number):
			// Its trap comes before the next command; a signal through the kernel may come later.
			s.arrived <- number
		default:
			err = syscall.Kill(pid, number)
		}
		if err != nil {
			fmt.Fprintf(hc.Stderr, "%s: kill: (%s) - %s\n", s.call.name, word, reason(err))
			code = 1
		}
	}
	return interp.ExitStatus(code)
}
