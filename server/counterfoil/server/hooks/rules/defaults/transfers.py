"""Files that are copied to other machines, and what is asked of AWS."""

from counterfoil.server.hooks.rules.defaults.options import FLAGS, TAKES, TEXTS
from counterfoil.server.hooks.rules.rule import CommandRule

__all__ = ["TRANSFERS"]

_AWS_SHOWN = ("--output", "--query", "--color", "--debug", "--no-cli-pager", "--no-paginate", "--no-progress")
_AWS_AT = ("--profile", "--region", "--endpoint-url")

# An answer with one of these codes says that the one request was looked at and refused.
_AWS_REFUSED = (
    r"An error occurred \((?:AccessDenied\w*|UnauthorizedOperation|AuthorizationError\w*|AuthFailure"
    r"|UnrecognizedClientException|InvalidClientTokenId|InvalidSignatureException|SignatureDoesNotMatch"
    r"|ExpiredToken\w*|Validation(?:Error|Exception)|InvalidParameter\w*)\) when calling the \w+ operation",
    r"^(?:aws: \[ERROR\]: )?Unable to locate credentials",
    r"^(?:aws: \[ERROR\]: )?Parameter validation failed:",
    r"^(?:aws: \[ERROR\]: )?Error (?:loading SSO Token|when retrieving token)",
)


def _aws(
    service: str,
    verb: str,
    *target: str,
    kind: str = "other",
    also: tuple[str, ...] = (),
    found: str | None = None,
    lookup: str | None = None,
) -> CommandRule:
    """Give the rule of one operation of one service."""
    return CommandRule(
        program="aws",
        words=(service, verb),
        unless=("--dry-run", "--generate-cli-skeleton", "--no-execute-changeset", "--invocation-type=DryRun"),
        action=f"aws.{service}.{verb}",
        also=also,
        kind=kind,
        found=() if found is None else (found,),
        refused=_AWS_REFUSED,
        several=("--no-cli-auto-prompt",),
        takes=TAKES["aws"],
        flags=FLAGS["aws"],
        texts=TEXTS,
        target=("{service}", *target),
        at=_AWS_AT,
        shown=_AWS_SHOWN,
        lookup=lookup,
    )


_MESSAGE = r'"MessageId": "(?P<id>[^"\s]{1,200})"'

TRANSFERS = (
    _aws("sns", "publish", "--topic-arn|--target-arn|--phone-number", kind="message", found=_MESSAGE),
    _aws("sqs", "send-message", "--queue-url", kind="message", found=_MESSAGE),
    _aws("ses", "send-email", "--to|--destination", kind="message", also=("email.send",), found=_MESSAGE),
    _aws("sesv2", "send-email", "--destination", kind="message", also=("email.send",), found=_MESSAGE),
    _aws("events", "put-events"),
    _aws(
        "lambda",
        "update-function-code",
        "--function-name",
        kind="deployment",
        also=("deploy",),
        found=r'"RevisionId": "(?P<id>[^"\s]{1,200})"',
        lookup="aws lambda get-function --function-name NAME: its CodeSha256 and LastModified",
    ),
    _aws(
        "ec2",
        "run-instances",
        found=r'"InstanceId": "(?P<id>i-[0-9a-f]{1,40})"',
        lookup="aws ec2 describe-instances: what was launched since, and by which client token",
    ),
    _aws(
        "ec2", "terminate-instances", "--instance-ids", lookup="aws ec2 describe-instances --instance-ids ID"
    ),
    _aws("ecs", "run-task", "--cluster", "--task-definition", found=r'"taskArn": "(?P<id>[^"\s]{1,300})"'),
    _aws("ecs", "update-service", "--cluster", "--service", kind="deployment", also=("deploy",)),
    _aws(
        "cloudformation",
        "create-stack",
        "--stack-name",
        kind="deployment",
        found=r'"StackId": "(?P<id>[^"\s]{1,300})"',
        lookup="aws cloudformation describe-stacks --stack-name NAME",
    ),
    _aws(
        "cloudformation",
        "update-stack",
        "--stack-name",
        kind="deployment",
        lookup="aws cloudformation describe-stack-events --stack-name NAME",
    ),
    _aws(
        "cloudformation",
        "delete-stack",
        "--stack-name",
        kind="deployment",
        lookup="aws cloudformation describe-stacks --stack-name NAME",
    ),
    _aws(
        "stepfunctions",
        "start-execution",
        "--state-machine-arn",
        found=r'"executionArn": "(?P<id>[^"\s]{1,300})"',
        lookup="aws stepfunctions list-executions --state-machine-arn ARN",
    ),
    _aws("codebuild", "start-build", "--project-name", found=r'"id": "(?P<id>[^"\s]{1,200}:[0-9a-f-]{36})"'),
    _aws(
        "codepipeline",
        "start-pipeline-execution",
        "--name",
        found=r'"pipelineExecutionId": "(?P<id>[^"\s]{1,200})"',
    ),
    _aws("ssm", "send-command", "--instance-ids", found=r'"CommandId": "(?P<id>[^"\s]{1,200})"'),
    CommandRule(
        program="aws",
        words=("cloudformation", "deploy"),
        unless=("--no-execute-changeset", "--generate-cli-skeleton"),
        action="aws.cloudformation.deploy",
        also=("deploy",),
        kind="deployment",
        takes=TAKES["aws"],
        flags=FLAGS["aws"],
        texts=TEXTS,
        target=("{service}", "--stack-name"),
        at=_AWS_AT,
        shown=_AWS_SHOWN,
        lookup="aws cloudformation describe-stack-events --stack-name NAME",
    ),
    # What stands at the other end afterwards is the same however often it is copied there.
    CommandRule(
        program="aws",
        words=("s3", "cp|sync"),
        remote=True,
        unless=("--dryrun",),
        action="aws.s3.copy",
        also=("deploy", "site.deploy", "s3.upload"),
        kind="deployment",
        repeat="safe",
        takes=TAKES["aws"],
        flags=FLAGS["aws"],
        texts=TEXTS,
        target=("{destination}",),
        at=_AWS_AT,
        shown=(*_AWS_SHOWN, "--quiet", "--only-show-errors"),
        lookup="the same command with --dryrun: of sync it lists nothing when everything is there{sent}",
    ),
    CommandRule(
        program="rsync",
        remote=True,
        unless=("--dry-run", "-n", "--list-only", "--help", "--version", "-V"),
        action="rsync.send",
        also=("deploy", "site.deploy", "files.upload"),
        kind="deployment",
        repeat="safe",
        takes=TAKES["rsync"],
        flags=FLAGS["rsync"],
        target=("{destination}",),
        shown=(
            "-v",
            "--verbose",
            "-q",
            "--quiet",
            "--progress",
            "--stats",
            "-h",
            "--human-readable",
            "--info",
        ),
        lookup="the same command with --dry-run --itemize-changes: it lists nothing when everything is there{sent}",
    ),
    CommandRule(
        program="scp",
        remote=True,
        action="scp.send",
        also=("deploy", "files.upload"),
        kind="deployment",
        repeat="safe",
        takes=TAKES["scp"],
        flags=FLAGS["scp"],
        target=("{destination}",),
        shown=("-v", "-q"),
        lookup="ssh HOST sha256sum FILE: the digests of what was sent{sent}",
    ),
)
