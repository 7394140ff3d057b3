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
	Environment              string                                                    `json:"environment"`
}

type celAnswer struct {
	Match         *bool   `json:"match,omitempty"`
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
	compiled := compilerFor(celFeatures(gates(given.FeatureGates))).CompileCELExpression(given.Expression, cel.Options{EnvType: &kind})
	if compiled.Error != nil {
		return celAnswer{CompileError: compiled.Error.Error()}, nil
	}
	answer := celAnswer{EstimatedCost: &compiled.MaxCost}
	match, details, err := compiled.DeviceMatches(context.Background(), cel.Device{
		Driver:                   given.Driver,
		AllowMultipleAllocations: given.AllowMultipleAllocations,
		Attributes:               given.Attributes,
		Capacity:                 given.Capacity,
	})
	if details != nil {
		answer.ActualCost = details.ActualCost()
	}
	if err != nil {
		answer.MatchError = cel.EnhanceRuntimeError(err).Error()
		return answer, nil
	}
	answer.Match = &match
	return answer, nil
}
