package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

type celLine struct {
	Expression               string                                                    `json:"expression"`
	Driver                   string                                                    `json:"driver"`
	Attributes               map[resourceapi.QualifiedName]resourceapi.DeviceAttribute `json:"attributes"`
	Capacity                 map[resourceapi.QualifiedName]resourceapi.DeviceCapacity  `json:"capacity"`
	AllowMultipleAllocations *bool                                                     `json:"allowMultipleAllocations"`
	FeatureGates             map[string]bool                                           `json:"featureGates"`
	Derived                  bool                                                      `json:"derived"`
	Environment              string                                                    `json:"environment"`
}

type celAnswer struct {
	Match         *bool   `json:"match,omitempty"`
	Attribute     any     `json:"attribute,omitempty"`
	MatchError    string  `json:"matchError,omitempty"`
	CompileError  string  `json:"compileError,omitempty"`
	EstimatedCost *uint64 `json:"estimatedCost,omitempty"`
	ActualCost    *uint64 `json:"actualCost,omitempty"`
}

type compiler interface {
	CompileCELExpression(expression string, options cel.Options) cel.CompilationResult
}

var compilers = map[cel.Features]compiler{}

func compilerFor(wanted cel.Features) compiler {
	if compilers[wanted] == nil {
		compilers[wanted] = cel.GetCompiler(wanted)
	}
	return compilers[wanted]
}

func evaluate(line []byte) (answer any, err error) {
	defer func() {
		// Some expressions are too much for cel-go itself.
		if found := recover(); found != nil {
			answer, err = map[string]string{"panic": fmt.Sprint(found)}, nil
		}
	}()
	return evaluated(line)
}

func evaluated(line []byte) (any, error) {
	var given celLine
	if err := json.Unmarshal(line, &given); err != nil {
		return nil, err
	}
	kind := environment.NewExpressions
	switch given.Environment {
	case "", "new":
	case "stored":
		kind = environment.StoredExpressions
	default:
		return nil, errors.New(`environment must be "new" or "stored"`)
	}
	options := cel.Options{EnvType: &kind, DerivedAttribute: given.Derived}
	compiled := compilerFor(celFeatures(gates(given.FeatureGates))).CompileCELExpression(given.Expression, options)
	if compiled.Error != nil {
		return celAnswer{CompileError: compiled.Error.Error()}, nil
	}
	answer := celAnswer{EstimatedCost: &compiled.MaxCost}
	device := cel.Device{
		Driver:                   given.Driver,
		AllowMultipleAllocations: given.AllowMultipleAllocations,
		Attributes:               given.Attributes,
		Capacity:                 given.Capacity,
	}
	ask := matching
	if given.Derived {
		ask = deriving
	}
	if err := ask(compiled, device, &answer); err != nil {
		answer.MatchError = cel.EnhanceRuntimeError(err).Error()
	}
	return answer, nil
}

func matching(compiled cel.CompilationResult, device cel.Device, answer *celAnswer) error {
	match, details, err := compiled.DeviceMatches(context.Background(), device)
	answer.ActualCost = details.ActualCost()
	if err == nil {
		answer.Match = &match
	}
	return err
}

func deriving(compiled cel.CompilationResult, device cel.Device, answer *celAnswer) error {
	attribute, details, err := compiled.EvaluateDerivedAttribute(context.Background(), device)
	answer.ActualCost = details.ActualCost()
	switch {
	case err != nil:
	case attribute.StringValues != nil && len(attribute.StringValues) == 0:
		// The API's own encoding leaves out what makes it a list.
		answer.Attribute = map[string][]string{"strings": {}}
	default:
		answer.Attribute = attribute
	}
	return err
}
