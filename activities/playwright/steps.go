package playwright

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/mxschmitt/playwright-go"

	"headgate/contract"
)

// steps plays all steps in order. While the effect is held it begins none.
func (s *Session) steps() {
	defer close(s.over)
	for _, step := range s.plan.Browser.Steps {
		if !s.begin() {
			return
		}
		if err := safely(func() error { return s.step(step) }); err != nil {
			s.mu.Lock()
			s.stepErr = fmt.Errorf("step %s (%s): %w", step.Name, step.Do, plain(err))
			s.mu.Unlock()
			return
		}
	}
}

// begin waits while the effect is held.
func (s *Session) begin() bool {
	select {
	case <-s.failed:
		return false
	case <-s.held:
	default:
		return true
	}
	select {
	case <-s.released:
		return true
	case <-s.failed:
		return false
	}
}

func (s *Session) step(step contract.Step) error {
	timeout := playwright.Float(float64(step.Timeout.D().Milliseconds()))
	target := s.page.Locator(step.Target)
	switch step.Do {
	case contract.StepGoto:
		return s.visit(step.Target, timeout)
	case contract.StepFill:
		return target.Fill(step.Value, playwright.LocatorFillOptions{Timeout: timeout})
	case contract.StepClick:
		return target.Click(playwright.LocatorClickOptions{Timeout: timeout})
	case contract.StepSelect:
		_, err := target.SelectOption(playwright.SelectOptionValues{Values: &[]string{step.Value}}, playwright.LocatorSelectOptionOptions{Timeout: timeout})
		return err
	case contract.StepUpload:
		file := playwright.InputFile{Name: path.Base(step.File), MimeType: "application/octet-stream", Buffer: []byte(step.Value)}
		return target.SetInputFiles([]playwright.InputFile{file}, playwright.LocatorSetInputFilesOptions{Timeout: timeout})
	case contract.StepWait:
		state := playwright.WaitForSelectorState(step.State)
		return target.First().WaitFor(playwright.LocatorWaitForOptions{State: &state, Timeout: timeout})
	case contract.StepExpect:
		if step.Value != "" {
			target = target.Filter(playwright.LocatorFilterOptions{HasText: step.Value})
		}
		return target.First().WaitFor(playwright.LocatorWaitForOptions{State: playwright.WaitForSelectorStateVisible, Timeout: timeout})
	case contract.StepExtract:
		return s.extract(step, target, timeout)
	}
	return fmt.Errorf("there is no step %q", step.Do)
}

var netError = regexp.MustCompile(`net::ERR_[A-Z_]+`)

func (s *Session) visit(address string, timeout *float64) error {
	response, err := s.page.Goto(address, playwright.PageGotoOptions{Timeout: timeout, WaitUntil: playwright.WaitUntilStateDomcontentloaded})
	if err != nil {
		if code := netError.FindString(err.Error()); code != "" {
			return errors.New(code) // without the address, which holds values
		}
		return err
	}
	if response != nil && response.Status() >= 400 {
		return fmt.Errorf("the page answered %d", response.Status())
	}
	return nil
}

// maxText bounds one extracted value, in bytes.
const maxText = 16 << 10

func (s *Session) extract(step contract.Step, target playwright.Locator, timeout *float64) error {
	value, err := read(step, target, timeout)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]any, len(s.values)+1) // readers keep what they got
	for name, v := range s.values {
		all[name] = v
	}
	all[step.Name] = value
	s.values = all
	return nil
}

func read(step contract.Step, target playwright.Locator, timeout *float64) (any, error) {
	if step.Count || step.Optional {
		n, err := target.Count()
		if err != nil || step.Count {
			return n, err
		}
		if n == 0 {
			return nil, nil
		}
	}
	var text string
	var err error
	if step.Attribute != "" {
		text, err = target.First().GetAttribute(step.Attribute, playwright.LocatorGetAttributeOptions{Timeout: timeout})
	} else {
		text, err = target.First().InnerText(playwright.LocatorInnerTextOptions{Timeout: timeout})
	}
	if err == nil && len(text) > maxText {
		err = fmt.Errorf("the text has %d bytes: at most %d are kept", len(text), maxText)
	}
	return strings.TrimSpace(text), err
}

// plain keeps the first line of an error: the rest is a log that holds values. An
// error of ours stays what it is.
func plain(err error) error {
	if !strings.Contains(err.Error(), "\n") && !errors.Is(err, playwright.ErrTargetClosed) {
		return err
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	text = strings.TrimPrefix(text, "playwright: ")
	if errors.Is(err, playwright.ErrTimeout) {
		text = "it took too long"
	}
	if errors.Is(err, playwright.ErrTargetClosed) {
		text = "the page was closed"
	}
	return errors.New(text)
}
