"""Criteria are read out of the files that Spec Kit and OpenSpec make."""

from pathlib import Path

import pytest

from counterfoil.server.specs import read_spec
from counterfoil.store.errors import InvalidArgument, TooLarge

SPEC_KIT = """# Feature Specification: Photo albums

**Feature Branch**: `001-photo-albums`

### User Story 1 - Sort photos (Priority: P1)

<!--
  ACTION REQUIRED: replace
- **FR-900**: System MUST be ignored in a comment
-->

- **FR-001**: System MUST group photos by date
- **FR-002**: System SHOULD remember the last album
- **FR-003**: Users MUST be able to move a photo

```
- **FR-901**: System MUST be ignored in code
```

### User Story 2 - Share (Priority: P2)

- **FR-001**: System MUST share an album by link

## Success Criteria

- **SC-001**: A thousand photos are sorted in two seconds
"""

OPEN_SPEC = """# Auth Specification

## Purpose
Who may come in.

## Requirements

### Requirement: Two-factor login
The system SHALL ask for a second factor.

#### Scenario: Right code
- **GIVEN** a user with a password
- **WHEN** the right code is given
- **THEN** the user is let in

### Requirement: Remember me
The system MAY remember a device.

## REMOVED Requirements

### Requirement: Security question
"""


def spec_of(tmp_path: Path, text: str):
    file = tmp_path / "spec.md"
    file.write_text(text, encoding="utf-8")
    return read_spec(file)


def test_spec_kit_lines_become_criteria_outside_of_comments_and_code(tmp_path: Path):
    read = spec_of(tmp_path, SPEC_KIT)
    assert read.format == "spec-kit"
    assert [(one.id, one.required) for one in read.spec.criteria] == [
        ("FR-001", True),
        ("FR-002", False),
        ("FR-003", True),
        ("FR-001.2", True),
        ("SC-001", True),
    ]
    assert read.spec.criteria[0].text == "System MUST group photos by date"


def test_open_spec_requirements_and_scenarios_become_criteria_and_removed_ones_do_not(tmp_path: Path):
    read = spec_of(tmp_path, OPEN_SPEC)
    assert read.format == "openspec"
    assert [(one.id, one.required) for one in read.spec.criteria] == [
        ("Two-factor login", True),
        ("Two-factor login / Right code", True),
        ("Remember me", False),
    ]
    assert read.spec.criteria[1].text == (
        "GIVEN a user with a password WHEN the right code is given THEN the user is let in"
    )


def test_the_digest_is_of_the_whole_file_so_that_any_change_shows(tmp_path: Path):
    before = spec_of(tmp_path, SPEC_KIT).spec
    after = spec_of(tmp_path, SPEC_KIT + "\n").spec
    assert before.uri == after.uri
    assert before.digest != after.digest


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"# Nothing here\n", "no criterion"), (b"\xff\xfe\x00", "UTF-8"), (b"", "no criterion")],
    ids=["no criterion", "no text", "empty"],
)
def test_a_file_without_criteria_is_refused_with_the_reason(tmp_path: Path, content: bytes, problem: str):
    file = tmp_path / "spec.md"
    file.write_bytes(content)
    with pytest.raises(InvalidArgument, match=problem):
        read_spec(file)


def test_a_file_that_is_not_there_or_too_large_is_refused(tmp_path: Path):
    with pytest.raises(InvalidArgument, match="cannot be read"):
        read_spec(tmp_path / "none.md")
    large = tmp_path / "large.md"
    large.write_bytes(b"x" * (1024 * 1024 + 1))
    with pytest.raises(TooLarge):
        read_spec(large)
