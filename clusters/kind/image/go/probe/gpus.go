package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

type gpu struct{ product, uuid, address string }

var uuidVariable = regexp.MustCompile(`^([A-Z][A-Z0-9_]*_[0-9]+)_UUID$`)

// gpus are those that a driver's CDI edits tell of, by variables for each, in the order of their PCI addresses.
func gpus(environment []string) []gpu {
	values := map[string]string{}
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = value
	}
	var found []gpu
	for name, uuid := range values {
		if match := uuidVariable.FindStringSubmatch(name); match != nil && uuid != "" {
			product := cmp.Or(values[match[1]+"_PRODUCT_NAME"], "NVIDIA GPU")
			found = append(found, gpu{product, uuid, values[match[1]+"_PCI_BUS_ID"]})
		}
	}
	slices.SortFunc(found, func(a, b gpu) int {
		return cmp.Or(cmp.Compare(a.address, b.address), cmp.Compare(a.uuid, b.uuid))
	})
	return found
}

func nvidiaSmi(c *call) int {
	found := gpus(os.Environ())
	if len(found) == 0 {
		// The file comes with a driver's libraries, which only a container with a GPU has.
		return c.fail(notFound, "command not found")
	}
	if line := strings.Join(c.arguments, " "); line != "-L" && line != "--list-gpus" {
		return c.fail(2, "only -L is known")
	}
	for index, one := range found {
		fmt.Fprintf(c.stdout, "GPU %d: %s (UUID: %s)\n", index, one.product, one.uuid)
	}
	return 0
}
