// Injected beside upstream's allocator with `go test -overlay`: runs upstream's own table of cases and writes what the
// allocator was given and what it answered, a JSON line for each case, to a file in the folder that DRAKIT_TABLES names.
// PACKAGE, GIVEN and SORTED are replaced, see upstream_tables.py.
package PACKAGE

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured/internal"
	"k8s.io/dynamic-resource-allocation/structured/internal/allocatortesting"
)

type drakitLine struct {
	Node           *corev1.Node                 `json:"node"`
	Claims         []*resourceapi.ResourceClaim `json:"claims"`
	DeviceClasses  []*resourceapi.DeviceClass   `json:"deviceClasses"`
	ResourceSlices []map[string]any             `json:"resourceSlices"`
	Allocated      drakitAllocated              `json:"allocated"`
	FeatureGates   map[string]bool              `json:"featureGates"`
}

type drakitAllocated struct {
	Devices  []string                     `json:"devices"`
	Shared   []string                     `json:"shared"`
	Capacity map[string]map[string]string `json:"capacity"`
}

type drakitCase struct {
	Implementation string         `json:"implementation"`
	Cancelled      bool           `json:"cancelled"`
	Line           drakitLine     `json:"line"`
	Answer         map[string]any `json:"answer"`
}

type drakitRecorder struct {
	*Allocator
	line  drakitLine
	write func(drakitCase)
}

// drakitPrintable makes quantities above the suffix E, which are printed without their zeros, print with an exponent.
func drakitPrintable(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			drakitPrintable(value.Elem())
		}
	case reflect.Slice:
		for index := range value.Len() {
			drakitPrintable(value.Index(index))
		}
	case reflect.Map:
		for _, key := range value.MapKeys() {
			entry := reflect.New(value.Type().Elem()).Elem()
			entry.Set(value.MapIndex(key))
			drakitPrintable(entry)
			value.SetMapIndex(key, entry)
		}
	case reflect.Struct:
		if quantity, is := value.Addr().Interface().(*resource.Quantity); is {
			if quantity.Format == resource.DecimalSI && quantity.CmpInt64(math.MaxInt64) > 0 {
				quantity.Format = resource.DecimalExponent
				quantity.Add(resource.Quantity{}) // forgets how it was printed before
			}
			return
		}
		for index := range value.NumField() {
			if value.Type().Field(index).IsExported() {
				drakitPrintable(value.Field(index))
			}
		}
	}
}

func (r *drakitRecorder) Allocate(ctx context.Context, node *corev1.Node, claims []*resourceapi.ResourceClaim) ([]resourceapi.AllocationResult, error) {
	r.line.Node = node
	for _, claim := range claims {
		claim = claim.DeepCopy()
		drakitPrintable(reflect.ValueOf(claim))
		r.line.Claims = append(r.line.Claims, claim)
	}
	found, err := r.Allocator.Allocate(ctx, node, claims)
	answer := map[string]any{}
	switch {
	case errors.Is(err, internal.ErrFailedAllocationOnNode):
		answer["error"], answer["scope"] = err.Error(), "node"
	case err != nil:
		answer["error"], answer["scope"] = err.Error(), "pod"
	case found == nil:
		answer["results"] = []any{}
	default:
		results := []resourceapi.AllocationResult{}
		for _, result := range found {
			results = append(results, *result.DeepCopy())
		}
		drakitPrintable(reflect.ValueOf(&results))
		answer["results"] = results
	}
	r.write(drakitCase{"PACKAGE", ctx.Err() != nil, r.line, answer})
	return found, err
}

func drakitState(given internal.AllocatedState) drakitAllocated {
	state := drakitAllocated{Capacity: map[string]map[string]string{}}
	for id := range given.AllocatedDevices {
		state.Devices = append(state.Devices, id.String())
	}
	for id := range given.AllocatedSharedDeviceIDs {
		state.Shared = append(state.Shared, id.GetDeviceID().String()+"/"+id.ShareID.String())
	}
	for id, amounts := range given.AggregatedCapacity {
		texts := map[string]string{}
		for name, amount := range amounts {
			texts[string(name)] = amount.String()
		}
		state.Capacity[id.String()] = texts
	}
	return state
}

// drakitSlices keeps empty lists of attributes, which the API's own encoding leaves out.
func drakitSlices(t *testing.T, slices []*resourceapi.ResourceSlice) []map[string]any {
	result := []map[string]any{}
	for _, slice := range slices {
		slice = slice.DeepCopy()
		drakitPrintable(reflect.ValueOf(slice))
		text, err := json.Marshal(slice)
		if err != nil {
			t.Fatal(err)
		}
		var entry map[string]any
		decoder := json.NewDecoder(strings.NewReader(string(text)))
		decoder.UseNumber()
		if err := decoder.Decode(&entry); err != nil {
			t.Fatal(err)
		}
		for index, device := range slice.Spec.Devices {
			for name, attribute := range device.Attributes {
				empty := map[string]bool{
					"bools":    attribute.BoolValues != nil && len(attribute.BoolValues) == 0,
					"ints":     attribute.IntValues != nil && len(attribute.IntValues) == 0,
					"strings":  attribute.StringValues != nil && len(attribute.StringValues) == 0,
					"versions": attribute.VersionValues != nil && len(attribute.VersionValues) == 0,
				}
				devices := entry["spec"].(map[string]any)["devices"].([]any)
				attributes := devices[index].(map[string]any)["attributes"].(map[string]any)
				for kind, is := range empty {
					if is {
						attributes[string(name)].(map[string]any)[kind] = []any{}
					}
				}
			}
		}
		result = append(result, entry)
	}
	return result
}

func drakitGates(given internal.Features) map[string]bool {
	gates := map[string]bool{}
	for name := range internal.FeaturesAll.Set() {
		for _, gate := range strings.Split(name, "+") {
			gates[gate] = given.Set().Has(name)
		}
	}
	return gates
}

func TestDrakitExport(t *testing.T) {
	file, err := os.Create(filepath.Join(os.Getenv("DRAKIT_TABLES"), "PACKAGE"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	var lock sync.Mutex
	write := func(entry drakitCase) {
		lock.Lock()
		defer lock.Unlock()
		if err := encoder.Encode(entry); err != nil {
			t.Error(err)
		}
	}
	record := func(
		ctx context.Context,
		features internal.Features,
		state internal.AllocatedState,
		lister internal.DeviceClassLister,
		slices []*resourceapi.ResourceSlice,
		cache *cel.Cache,
	) (internal.Allocator, error) {
		inner, err := NewAllocator(ctx, features, GIVEN, lister, slices, cache)
		if err != nil {
			return nil, err
		}
		classes, err := lister.List()
		if err != nil {
			return nil, err
		}
		line := drakitLine{
			DeviceClasses:  classes,
			ResourceSlices: drakitSlices(t, slices),
			Allocated:      drakitState(state),
			FeatureGates:   drakitGates(features),
		}
		return &drakitRecorder{inner, line, write}, nil
	}
	allocatortesting.TestAllocator(t, SupportedFeatures, record)
	SORTED()
}
