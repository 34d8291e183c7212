"""Command line that solves a problem, compares policies or verifies an answer."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from policies.cli.tables import answer_text, comparison_text, verification_text
from policies.documents.problem import ParsedProblem, problem_from_document
from policies.documents.strict_json import strict_json
from policies.documents.verification import verify_answer
from policies.errors import (
    PolicyError,
    PolicyModeError,
    PolicyOptionsError,
    PolicyUnknownError,
    SolveFailedError,
    SolveTimeoutError,
)
from policies.selection import choose, policies_available
from policies.verification.checks import Check
from policies.verification.verify import Verification

FINE, NOT_SO, UNUSABLE = 0, 1, 2
EVERYTHING = ("placements", "certificate", "schedule")


class UnusableInput(Exception):
    """Unusable argument or file, with the reason as its text."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    It is 0, or 1 if the answer is not verified or there is none, or 2 for unusable input.
    """
    given = _parser().parse_args(arguments)
    try:
        commands = {"solve": _solve, "compare": _compare, "verify": _verify}
        return commands[given.command](given)
    except ModuleNotFoundError as error:
        print(
            f"{error.name} is not installed; to solve: pip install 'allocation-policies[solvers]'",
            file=sys.stderr,
        )
        return UNUSABLE
    except (UnusableInput, PolicyError) as error:
        print(_sentence(error), file=sys.stderr)
        return NOT_SO if isinstance(error, SolveTimeoutError | SolveFailedError) else UNUSABLE
    except BrokenPipeError:  # the reader closed the pipe
        sys.stderr.close()
        return FINE


def _sentence(error: UnusableInput | PolicyError) -> str:
    """Return a line for each mistake, with its detail, its place in the problem and its code."""
    if isinstance(error, UnusableInput):
        return str(error)
    return "\n".join(
        each.detail.removesuffix(".")
        + (f" at {each.pointer}" if each.pointer else "")
        + f" ({each.code})"
        for each in error.mistakes
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m policies",
        description=__doc__,
        epilog="Exit code 0: fine; 1: not verified, or no answer in time; 2: unusable input.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    names = ", ".join(info.name for info in policies_available())

    def command(name: str, purpose: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=purpose, description=purpose)
        sub.add_argument("problem", help="an evaluation as JSON; - is standard input")
        sub.add_argument("--json", action="store_true", help="JSON instead of tables")
        return sub

    def policy(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--policy", help=f"instead of the problem's: {names}")
        sub.add_argument("--mode", help="divisible or indivisible, where the policy has both")
        sub.add_argument(
            "--option",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help="of the policy; the value is JSON, or else text; may be repeated",
        )

    solving = command("solve", "Allocate the pool by one policy.")
    policy(solving)
    solving.add_argument("--time-limit", type=float, metavar="SECONDS", help="then give up")
    comparing = command("compare", "Answer one problem by several policies.")
    comparing.add_argument("--policies", required=True, metavar="A,B,C", help=names)
    comparing.add_argument("--time-limit", type=float, metavar="SECONDS", help="for all of them")
    verifying = command("verify", "Put an answer of `solve --json` to the proof, without a solver.")
    verifying.add_argument(
        "answer",
        nargs="?",
        help="what solve --json printed; without it, the problem's file holds input and answer",
    )
    policy(verifying)
    return parser


def _solve(given: argparse.Namespace) -> int:
    parsed, policy = _asked(given, _read(given.problem), {})
    # Loaded here: an installation that only verifies has no solver, and to refuse input none is needed.
    from policies.documents.answer import allocation_to_document
    from policies.registry import solve

    allocation = solve(
        parsed.problem,
        policy["name"],
        mode=policy["mode"],
        options=policy["options"],
        time_limit=given.time_limit,
        history=parsed.history,
        running=parsed.running,
    )
    if given.json:
        _print_json({"policy": policy, **allocation_to_document(allocation, EVERYTHING)})
    else:
        print(f"{policy['name']}, {policy['mode']}\n")
        print(answer_text(allocation_to_document(allocation, (*parsed.include, "schedule"))))
    return FINE


def _compare(given: argparse.Namespace) -> int:
    from policies.documents.comparison import compare_documents

    names = [name.strip() for name in given.policies.split(",") if name.strip()]
    comparison = compare_documents(_read(given.problem), names, time_limit=given.time_limit)
    if given.json:
        _print_json(comparison)
    else:
        print(comparison_text(comparison))
    answered = any(column["error"] is None for column in comparison["columns"])
    return FINE if answered else NOT_SO


def _verify(given: argparse.Namespace) -> int:
    problem, answer = _problem_and_answer(given)
    answered = answer.get("policy") or {}
    try:
        parsed, policy = _asked(given, problem, answered)
    except (PolicyUnknownError, PolicyModeError, PolicyOptionsError) as error:
        if not answered or given.policy or given.mode or given.option:
            raise  # it is not the answer that cannot be used
        name = "options" if isinstance(error, PolicyOptionsError) else "policy"
        found = Check(name, False, f"{error.pointer}: {error.detail}", 1.0)
        verification = Verification(False, (found,))
    else:
        verification = verify_answer(parsed, answer, choose(**policy))
    checks = [
        {"name": check.name, "holds": check.holds, "detail": check.detail}
        for check in verification.checks
    ]
    if given.json:
        _print_json({"valid": verification.valid, "checks": checks})
    else:
        print(verification_text(checks))
        print("\nvalid" if verification.valid else "\nNOT valid")
    return FINE if verification.valid else NOT_SO


def _problem_and_answer(given: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the problem's and the answer's documents, from two files or from one."""
    if given.answer is not None:
        return _read(given.problem), _read(given.answer)
    proof = _read(given.problem)
    for part in ("input", "answer"):
        if not isinstance(proof.get(part), dict):
            raise UnusableInput(f"{given.problem}: a proof is an object with input and answer")
    return proof["input"], proof["answer"]


def _asked(
    given: argparse.Namespace, document: dict[str, Any], answered: dict[str, Any]
) -> tuple[ParsedProblem, dict[str, Any]]:
    """Return the problem and its policy.

    The policy is that of the arguments, else of the answer, else of the problem.
    """
    stated = answered or document.get("policy") or {}
    policy = dict(stated) if isinstance(stated, dict) else {"name": stated}
    if given.policy is not None:
        policy = {"name": given.policy}
    if "name" not in policy:
        raise UnusableInput("name a policy: --policy, or policy.name in the problem")
    if given.mode is not None:
        policy["mode"] = given.mode
    options = policy.get("options") or {}
    if isinstance(options, dict):  # anything else is rejected with the problem
        options = {**options, **dict(map(_option, given.option))}
    policy["options"] = options
    parsed = problem_from_document({**document, "policy": policy})
    choice = choose(parsed.policy, parsed.mode, parsed.options)
    return parsed, {"name": parsed.policy, "mode": choice.mode, "options": choice.options}


def _option(text: str) -> tuple[str, Any]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise UnusableInput(f"--option {text}: write key=value")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


def _read(name: str) -> dict[str, Any]:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        document = strict_json(text)
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise UnusableInput(f"{name}: {error}") from error
    if not isinstance(document, dict):
        raise UnusableInput(f"{name}: this is not a JSON object")
    return document


def _print_json(document: dict[str, Any]) -> None:
    # Infinity and NaN are no JSON: an error is better than a file that no other program reads.
    print(json.dumps(document, indent=2, allow_nan=False))


if __name__ == "__main__":
    raise SystemExit(main())
