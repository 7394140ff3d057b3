// Injected beside upstream's CEL compiler with `go test -overlay`, whose three methods have other names there: upstream's
// own tests, run as they are, compile and evaluate through these, which write what was given and what came of it, a JSON
// line for each call, to a file in the folder that DRAKIT_TABLES names. See upstream_tables.py.
package cel

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/cel-go/cel"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/cel/environment"
)

type drakitDevice struct {
	Driver                   string                                                    `json:"driver"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations,omitempty"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes,omitempty"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity,omitempty"`
}

type drakitLine struct {
	drakitDevice
	Expression   string          `json:"expression"`
	Derived      bool            `json:"derived"`
	FeatureGates map[string]bool `json:"featureGates"`
	Environment  string          `json:"environment"`
}

type drakitAnswer struct {
	CompileError  string                       `json:"compileError,omitempty"`
	Match         *bool                        `json:"match,omitempty"`
	Attribute     *resourceapi.DeviceAttribute `json:"attribute,omitempty"`
	MatchError    string                       `json:"matchError,omitempty"`
	EstimatedCost *uint64                      `json:"estimatedCost,omitempty"`
	ActualCost    *uint64                      `json:"actualCost,omitempty"`
}

type drakitCase struct {
	Evaluated bool         `json:"evaluated"`
	Cancelled bool         `json:"cancelled"`
	Line      drakitLine   `json:"line"`
	Answer    drakitAnswer `json:"answer"`
}

var (
	drakitLock  sync.Mutex
	drakitFile  *os.File
	drakitLines = map[*cel.Env]map[string]drakitLine{}
)

func TestMain(m *testing.M) {
	var err error
	if drakitFile, err = os.Create(filepath.Join(os.Getenv("DRAKIT_TABLES"), "cel")); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := drakitFile.Close(); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// drakitWrite needs the lock.
func drakitWrite(entry drakitCase) {
	encoder := json.NewEncoder(drakitFile)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(entry); err != nil {
		panic(err)
	}
}

func (c compiler) CompileCELExpression(expression string, options Options) CompilationResult {
	result := c.drakitCompile(expression, options)
	if options.CostLimit != nil {
		panic("the limit of a test cannot be written down")
	}
	line := drakitLine{
		Expression: expression,
		Derived:    options.DerivedAttribute,
		FeatureGates: map[string]bool{
			"DRAConsumableCapacity": c.features.EnableConsumableCapacity,
			"DRAListTypeAttributes": c.features.EnableListTypeAttributes,
		},
		Environment: "stored",
	}
	if options.EnvType != nil && *options.EnvType == environment.NewExpressions {
		line.Environment = "new"
	}
	answer := drakitAnswer{}
	switch {
	case result.Error != nil:
		answer.CompileError = result.Error.Error()
	case !options.DisableCostEstimation:
		answer.EstimatedCost = &result.MaxCost
	}
	drakitLock.Lock()
	defer drakitLock.Unlock()
	drakitWrite(drakitCase{Line: line, Answer: answer})
	if answer.EstimatedCost != nil {
		if drakitLines[result.Environment] == nil {
			drakitLines[result.Environment] = map[string]drakitLine{}
		}
		drakitLines[result.Environment][expression] = line
	}
	return result
}

func (c CompilationResult) DeviceMatches(ctx context.Context, input Device) (bool, *cel.EvalDetails, error) {
	match, details, err := c.drakitMatches(ctx, input)
	c.drakitEvaluated(ctx, false, input, drakitAnswer{Match: &match}, details, err)
	return match, details, err
}

func (c CompilationResult) EvaluateDerivedAttribute(ctx context.Context, input Device) (*resourceapi.DeviceAttribute, *cel.EvalDetails, error) {
	attribute, details, err := c.drakitDerive(ctx, input)
	c.drakitEvaluated(ctx, true, input, drakitAnswer{Attribute: attribute}, details, err)
	return attribute, details, err
}

func (c CompilationResult) drakitEvaluated(ctx context.Context, derived bool, input Device, answer drakitAnswer, details *cel.EvalDetails, err error) {
	if err != nil {
		answer = drakitAnswer{MatchError: EnhanceRuntimeError(err).Error()}
	}
	answer.EstimatedCost = &c.MaxCost
	if details != nil {
		answer.ActualCost = details.ActualCost()
	}
	drakitLock.Lock()
	defer drakitLock.Unlock()
	line, known := drakitLines[c.Environment][c.Expression]
	if !known {
		panic("evaluated, but not compiled with an estimate: " + c.Expression)
	}
	line.Derived = derived
	line.drakitDevice = drakitDevice(input)
	drakitUnchanged(line.drakitDevice)
	drakitWrite(drakitCase{true, ctx.Err() != nil, line, answer})
}

// drakitUnchanged ends the run when JSON does not hold all of a device, as that of empty lists and the largest quantities.
func drakitUnchanged(device drakitDevice) {
	var read drakitDevice
	text, err := json.Marshal(device)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil || !apiequality.Semantic.DeepEqual(device, read) {
		panic("a device cannot be written down: " + string(text))
	}
}
