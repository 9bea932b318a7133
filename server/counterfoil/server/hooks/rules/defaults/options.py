"""Which options of the programs take a value, and which take none, by the words of a rule.

What a rule's target is can be told only by whoever knows that: `--tag next` names no package. Options that stand
before a program's words stand in `shell.options`. What is in neither table takes the next word as its value
wherever the target does not need it, see `acted_on`. `-b|--body` are names of one option, under which it is
compared; where a name stands alone, nobody said that it is another one's.
"""

from collections.abc import Mapping

__all__ = ["FLAGS", "TAKES", "TEXTS"]


def _names(*lines: str) -> tuple[str, ...]:
    return tuple(name for line in lines for name in line.split())


TAKES: Mapping[str, tuple[str, ...]] = {
    "gh pr create": _names(
        "-R|--repo --hostname -b|--body -F|--body-file -t|--title -T|--template -a|--assignee -l|--label",
        "-m|--milestone -p|--project -B|--base -H|--head -r|--reviewer --recover",
    ),
    "gh pr merge": _names(
        "-R|--repo --hostname -b|--body -F|--body-file -t|--subject -T --template -A|--author-email",
        "--match-head-commit",
    ),
    "gh pr comment": _names(
        "-R|--repo --hostname -b|--body -F|--body-file -t --title -T --template",
    ),
    "gh issue create": _names(
        "-R|--repo --hostname -b|--body -F|--body-file -t|--title -T|--template -a|--assignee -l|--label",
        "-m|--milestone -p|--project --recover",
    ),
    "gh release create": _names(
        "-R|--repo --hostname -t|--title -n|--notes -F|--notes-file --notes-start-tag --target",
        "--discussion-category",
    ),
    "gh workflow run": _names(
        "-R|--repo --hostname -f|--raw-field|@-F|@--field -r|--ref",
    ),
    "gh api": _names(
        "-X|--method -f|--raw-field -F|--field -H|--header --input -q|--jq -t|--template -p|--preview",
        "--cache --hostname",
    ),
    "glab mr create": _names(
        "-R|--repo --hostname -g|--group -t|--title -d|--description -a|--assignee -l|--label -m|--milestone -b|--target-branch -s|--source-branch -H|--head --reviewer -i|--related-issue",
        "--template",
    ),
    "glab mr merge": _names(
        "-R|--repo --hostname -g|--group -m|--message --squash-message --sha",
    ),
    "npm publish": _names(
        "--tag --access --otp --registry --provenance-file --auth-type --loglevel --userconfig --scope",
        "--publish-branch --tolerate-republish-version --new-version --message --gzip-level -w",
        "--workspace --filter -F -C --dir --cwd --prefix --workspace-concurrency",
    ),
    "cargo publish": _names(
        "--index --registry --token -p|--package --exclude -F|--features -j|--jobs --target --target-dir",
        "--manifest-path --color --config --lockfile-path -Z",
    ),
    "twine upload": _names(
        "-r|--repository --repository-url -u|--username -p|--password -c|--comment -i|--identity",
        "--sign-with --config-file --cert --client-cert",
    ),
    "uv publish": _names(
        "--index -t|--token -u|--username -p|--password --trusted-publishing --keyring-provider",
        "--publish-url --check-url --config-file --default-index",
    ),
    "poetry publish": _names(
        "-r|--repository -u|--username -p|--password --cert --client-cert --dist-dir",
    ),
    "gem push": _names(
        "-k|--key --host --otp -p|--http-proxy --config-file --attestation",
    ),
    "docker push": _names(
        "--platform --authfile --cert-dir --compression-format --compression-level --creds --digestfile",
        "--encrypt-layer --encryption-key -f --format --retry --retry-delay --sign-by --sign-by-sigstore",
        "--sign-by-sigstore-private-key --sign-passphrase-file",
    ),
    "docker buildx build": _names(
        "--add-host --allow --annotation --attest --build-arg --build-context --builder --cache-from",
        "--cache-to --call --cgroup-parent -f|--file --iidfile --label --metadata-file --network",
        "--no-cache-filter -o|--output --platform --progress --provenance --sbom --secret --set",
        "--shm-size --ssh -t|--tag --target --ulimit --cpu-period --cpu-quota -c|--cpu-shares",
        "--cpuset-cpus --cpuset-mems -m|--memory --memory-swap --isolation --security-opt",
    ),
    "kubectl apply": _names(
        "-f|--filename -k|--kustomize -l|--selector --field-selector -o|--output --field-manager",
        "--grace-period --timeout --template --subresource --prune-allowlist --raw --image --port -r",
        "--replicas --from --from-file --from-literal --from-env-file --type --docker-server",
        "--docker-username --docker-password --docker-email --cert --key --clusterrole --role",
        "--serviceaccount --group --user --verb --resource --resource-name --rule --class --annotation",
        "--default-backend --tcp --node-port --external-name --clusterip --schedule --restart --hard",
        "--scopes --min-available --max-unavailable --value --description --preemption-policy --audience",
        "--duration --bound-object-kind --bound-object-name --bound-object-uid --non-resource-url",
        "--aggregation-rule -p|--patch --patch-file --to-revision --current-replicas --resource-version",
    ),
    "helm install": _names(
        "--ca-file --cert-file --description --key-file --keyring -l|--labels --name-template -o|--output",
        "--password --post-renderer --post-renderer-args --repo --set --set-file --set-json --set-literal",
        "--set-string --timeout --username -f|--values --version --history-max --qps --burst-limit",
    ),
    "terraform apply": _names(
        "-var|--var -var-file|--var-file -target|--target -replace|--replace -state|--state",
        "-state-out|--state-out -backup|--backup -lock-timeout|--lock-timeout",
        "-parallelism|--parallelism -exclude|--exclude -target-file|--target-file",
        "-exclude-file|--exclude-file",
    ),
    "pulumi up": _names(
        "-c|--config --config-file -m|--message -p|--parallel -t|--target -r --replace --target-replace",
        "--exclude --policy-pack --policy-pack-config --plan --import-file --exec-kind --refresh",
        "--remote-env --git-auth-access-token",
    ),
    "vercel": _names(
        "-b|--build-env -e|--env -m|--meta --regions --target -A --archive -d --scope --team --project",
    ),
    "netlify deploy": _names(
        "-d|--dir -m|--message -a|--alias -b|--branch -f|--functions --context --timeout -s|--site",
    ),
    "wrangler deploy": _names(
        "--name --compatibility-date --compatibility-flags --assets --site --var --define --alias",
        "--triggers --routes --route --domains --tag --message --branch --commit-hash --commit-message",
        "--project-name --outdir --outfile --tsconfig --dispatch-namespace --version-id --percentage",
        "--jsx-factory --jsx-fragment --upload-source-maps",
    ),
    "fly deploy": _names(
        "-i|--image -e|--env -s --strategy --dockerfile --build-arg --build-secret --build-target",
        "--image-label --label -r|--region --primary-region --regions --exclude-regions --vm-size",
        "--vm-memory --vm-cpus --vm-cpu-kind --wait-timeout --release-command-timeout --lease-timeout",
        "--max-unavailable --file-local --file-secret --file-literal --signal --volume-initial-size",
    ),
    "firebase deploy": _names(
        "--only --except -m|--message --config -p|--public",
    ),
    "gcloud deploy": _names(
        "--image --source --service-account --set-env-vars --update-env-vars --remove-env-vars",
        "--env-vars-file --set-secrets --update-secrets --memory --cpu --timeout --concurrency",
        "--min-instances --max-instances --port --platform --tag --labels --update-labels --ingress",
        "--vpc-connector --vpc-egress --add-cloudsql-instances --revision-suffix --runtime --entry-point",
        "--trigger-topic --trigger-bucket --trigger-event --trigger-resource --version -v --bucket",
        "--image-url --stage-bucket --command --args --execution-environment --container --network",
        "--subnet --cluster --namespace --key --build-env-vars --function --description --config",
        "--delivery-pipeline --to-target --service-directory-service --appyaml",
    ),
    "ansible-playbook": _names(
        "-i|--inventory|--inventory-file -l|--limit -e|--extra-vars -t|--tags --skip-tags -u|--user -c|--connection -T|--timeout -f|--forks -M|--module-path --private-key|--key-file --ssh-common-args",
        "--ssh-extra-args --sftp-extra-args --scp-extra-args --become-method --become-user --vault-id",
        "--vault-password-file --vault-pass-file --start-at-task --become-password-file",
        "--connection-password-file",
    ),
    "gh repo create": _names(
        "-d|--description -g|--gitignore -h|--homepage -l|--license -r|--remote -s|--source -t|--team",
        "-p|--template",
    ),
    "gh gist create": _names("-d|--desc -f|--filename"),
    "gh run rerun": _names("-R|--repo --hostname -j|--job"),
    "helm uninstall": _names("--cascade --description --timeout --history-max"),
    "cdk deploy": _names(
        "-a|--app -c|--context -p|--plugin --profile -r|--role-arn --toolkit-stack-name -o|--output --tags -t",
        "--require-approval --notification-arns --parameters -O|--outputs-file --progress --concurrency",
        "-m|--method --change-set-name -e --build-exclude -E --hotswap-fallback --asset-parallelism",
    ),
    "serverless deploy": _names(
        "-s|--stage -r|--region -c|--config -f|--function --aws-profile --app --org --param",
    ),
    "sam deploy": _names(
        "-t|--template-file|--template --stack-name --s3-bucket --s3-prefix --image-repository --kms-key-id",
        "--image-repositories --role-arn --region --profile --config-env --config-file --capabilities",
        "--parameter-overrides --tags --metadata --notification-arns --signing-profiles --on-failure",
        "--max-wait-duration",
    ),
    "git subtree push": _names(
        "-P|--prefix -b|--branch --onto --annotate -m|--message",
    ),
    "rsync": _names(
        "-e|--rsh -f|--filter --exclude --include --exclude-from --include-from --files-from --rsync-path",
        "-M|--remote-option --chmod --chown --usermap --groupmap --bwlimit --timeout --contimeout --port",
        "--password-file --log-file --log-file-format --partial-dir -T|--temp-dir --compare-dest --copy-dest",
        "--link-dest --backup-dir --suffix --max-size --min-size -B|--block-size --max-delete --info --debug",
        "-@|--modify-window --compress-level|--zl --compress-choice|--zc --checksum-choice|--cc --skip-compress",
        "--out-format --outbuf --address --sockopts --iconv --stop-after --stop-at --checksum-seed --protocol",
        "--max-alloc --write-batch --only-write-batch --read-batch --stderr --trust-sender",
    ),
    "scp": _names("-c -D -F -i -J -l -o -P -S -X"),
    "aws": _names("--*"),
    "stripe create": _names(
        "-d|--data -e|--expand -i|--idempotency -v|--stripe-version --stripe-account",
        "--stripe-account-id --file --*",
    ),
}

FLAGS: Mapping[str, tuple[str, ...]] = {
    "gh pr create": _names(
        "-d|--draft -f|--fill --fill-first --fill-verbose --no-maintainer-edit -e|--editor",
    ),
    "gh pr merge": _names(
        "-m|--merge -r|--rebase -s|--squash -d|--delete-branch --admin --auto --disable-auto",
    ),
    "gh pr comment": _names(
        "-e|--editor -w|--web --edit-last --create-if-none --delete-last",
    ),
    "gh pr review": _names(
        "-a|--approve -c|--comment -r|--request-changes",
    ),
    "gh issue create": _names(
        "-e|--editor -w|--web",
    ),
    "gh release create": _names(
        "-p|--prerelease --generate-notes --latest --verify-tag --notes-from-tag --fail-on-no-commits",
    ),
    "gh workflow run": _names(
        "--json",
    ),
    "gh api": _names(
        "-i|--include --paginate --slurp --silent",
    ),
    "glab mr create": _names(
        "-f|--fill --fill-commit-body --draft --wip --push --copy-issue-labels --create-source-branch",
        "--remove-source-branch --squash-before-merge --allow-collaboration --no-editor --recover",
        "--signoff",
    ),
    "glab mr merge": _names(
        "-s|--squash -r|--rebase -d|--remove-source-branch --when-pipeline-succeeds --auto-merge",
    ),
    "npm publish": _names(
        "-ws|--workspaces --include-workspace-root -r|--recursive -f|--force --provenance",
        "--ignore-scripts --json -s|--silent --no-git-checks --report-summary --tolerate-republish",
        "--no-git-tag-version --non-interactive --new --no-provenance --foreground-scripts -d --major",
        "--minor --patch --no-color --color --progress --no-progress --no-workspaces --embed-readme",
        "--skip-manifest-obfuscation --no-audit --no-fund",
    ),
    "cargo publish": _names(
        "--no-verify --allow-dirty --workspace --all --all-features --no-default-features --keep-going",
        "--locked --offline --frozen -v -vv",
    ),
    "twine upload": _names(
        "-s|--sign --attestations --skip-existing --non-interactive --disable-progress-bar",
    ),
    "uv publish": _names(
        "-n|--no-cache --native-tls --offline --no-progress --no-config -v --no-attestations",
    ),
    "poetry publish": _names(
        "--build --skip-existing -n|--no-interaction -v -vv -vvv --no-ansi --ansi",
    ),
    "gem push": _names(
        "-V --backtrace --norc --silent --no-http-proxy --no-verbose",
    ),
    "docker push": _names(
        "-a|--all-tags --all --disable-content-trust -p --purge --insecure --rm --remove-signatures",
        "--tls-verify --force-compression --compress",
    ),
    "docker buildx build": _names(
        "--push --load --pull --no-cache -q --check -D|--debug --rm --squash",
    ),
    "docker-compose push": _names(
        "--ignore-push-failures --include-deps",
    ),
    "kubectl apply": _names(
        "--all -A|--all-namespaces --force --force-conflicts --ignore-not-found -i --now --interactive",
        "--overwrite --prune -R|--recursive --server-side --show-managed-fields --openapi-patch --wait",
        "--edit --save-config --windows-line-endings --append-hash --allow-missing-template-keys",
        "--cascade --validate --global-default --insecure-skip-tls-verify --match-server-version",
        "--disable-compression --warnings-as-errors",
    ),
    "helm install": _names(
        "--atomic --create-namespace --dependency-update --devel --disable-openapi-validation",
        "--enable-dns --force -g|--generate-name --hide-notes --hide-secret --no-hooks",
        "--insecure-skip-tls-verify --pass-credentials --plain-http --render-subchart-notes --replace",
        "--skip-crds --skip-schema-validation --take-ownership --verify --wait --wait-for-jobs",
        "--cleanup-on-fail -i|--install --reset-values --reset-then-reuse-values --reuse-values",
        "--rollback-on-failure --force-conflicts --force-replace --server-side",
    ),
    "terraform apply": _names(
        "-auto-approve|--auto-approve -destroy|--destroy -refresh-only|--refresh-only",
        "-compact-warnings -json -no-color|--no-color -input|--input -lock|--lock -refresh|--refresh",
        "-concise -show-sensitive -consolidate-warnings -allow-deferral",
    ),
    "pulumi up": _names(
        "-f|--skip-preview -d|--debug -y|--yes --diff -j|--json --suppress-outputs --suppress-progress",
        "--continue-on-error --expect-no-changes --config-path --secrets-provider --show-config",
        "--non-interactive --strict --remote",
    ),
    "vercel": _names(
        "--prod -f|--force --with-cache -p|--public -n|--no-clipboard --no-wait --prebuilt --skip-domain",
        "-l|--logs -y --guidance",
    ),
    "netlify deploy": _names(
        "-p|--prod --prod-if-unlocked --build --no-build --skip-functions-cache -o|--open -j|--json",
        "--trigger --draft --upload-source-zip",
    ),
    "wrangler deploy": _names(
        "--minify --no-bundle --latest --keep-vars --logpush --node-compat --strict --commit-dirty",
        "--skip-caching --no-x-autoconfig",
    ),
    "fly deploy": _names(
        "--now --detach --local-only --remote-only --build-only --push --nixpacks --no-cache --ha",
        "--auto-confirm --smoke-checks --dns-checks --depot --buildkit",
    ),
    "firebase deploy": _names(
        "-f|--force --non-interactive --json --interactive",
    ),
    "gcloud deploy": _names(
        "--allow-unauthenticated --no-allow-unauthenticated --async --no-traffic --promote --no-promote",
        "--stop-previous-version --no-stop-previous-version --gen2 --no-gen2 --trigger-http -q",
        "--cpu-throttling --no-cpu-throttling --use-http2 --no-cache --cpu-boost --no-cpu-boost",
        "--user-output-enabled --retry --no-retry --ignore-file",
    ),
    "ansible-playbook": _names(
        "-b|--become -k|--ask-pass -K|--ask-become-pass -J|--ask-vault-pass -D|--diff -v -vv -vvv -vvvv",
        "--step --force-handlers --flush-cache --list-tags",
    ),
    "gh repo create": _names(
        "--private --public --internal -c|--clone --push --add-readme --disable-issues --disable-wiki",
        "--include-all-branches",
    ),
    "gh gist create": _names("-p|--public"),
    "gh run rerun": _names("--failed -d|--debug"),
    "helm uninstall": _names(
        "--ignore-not-found --keep-history --no-hooks --wait --cleanup-on-fail --force --recreate-pods",
        "--wait-for-jobs --force-replace --server-side",
    ),
    "cdk deploy": _names(
        "--all -f|--force --no-rollback -R --rollback --hotswap --watch --logs --no-logs --exclusively",
        "--ci --no-execute --execute --strict --json -j --no-color --ignore-no-stacks --asset-prebuild",
        "--no-previous-parameters --previous-parameters --import-existing-resources --no-asset-parallelism",
    ),
    "serverless deploy": _names("--force --conceal --aws-s3-accelerate --no-aws-s3-accelerate --minify"),
    "sam deploy": _names(
        "--guided -g --confirm-changeset --no-confirm-changeset --fail-on-empty-changeset --force-upload",
        "--no-fail-on-empty-changeset --disable-rollback --no-disable-rollback --resolve-s3 --no-progressbar",
        "--resolve-image-repos --use-json",
    ),
    "git subtree push": _names("-q|--quiet --rejoin --ignore-joins --squash -d|--debug"),
    "rsync": _names(
        "-v|--verbose -q|--quiet -c|--checksum -a|--archive -r|--recursive -R|--relative -b|--backup",
        "-u|--update --inplace --append --append-verify -d|--dirs -l|--links -L|--copy-links",
        "--copy-unsafe-links --safe-links -k|--copy-dirlinks -K|--keep-dirlinks -H|--hard-links -p|--perms",
        "-E|--executability -A|--acls -X|--xattrs -o|--owner -g|--group --devices --specials -D -t|--times",
        "-O|--omit-dir-times -J|--omit-link-times --super --fake-super -S|--sparse --preallocate -n|--dry-run",
        "-W|--whole-file -x|--one-file-system --existing --ignore-existing --remove-source-files --del",
        "--delete --delete-before --delete-during --delete-delay --delete-after --delete-excluded",
        "--ignore-errors --force --partial --delay-updates -m|--prune-empty-dirs --numeric-ids -I|--ignore-times",
        "--size-only -y|--fuzzy -z|--compress -C|--cvs-exclude -0|--from0 -s|--secluded-args --stats -h",
        "--human-readable -P --progress -i|--itemize-changes -8 --list-only -4|--ipv4 -6|--ipv6 --no-motd -N -U",
        "--mkpath --open-noatime --fsync --blocking-io --old-args --msgs2stderr",
    ),
    "scp": _names("-3 -4 -6 -A -B -C -O -p -q -R -r -s -T -v"),
    "aws": _names(
        "--debug --no-cli-pager --no-paginate --no-verify-ssl --no-sign-request --no-cli-auto-prompt --dry-run",
        "--no-dry-run --recursive --delete --quiet --only-show-errors --no-progress --dryrun --follow-symlinks",
        "--no-follow-symlinks --size-only --exact-timestamps --force-glacier-transfer --no-guess-mime-type",
        "--force-new-deployment --enable-execute-command --publish --no-publish --no-execute-changeset",
        "--no-fail-on-empty-changeset --fail-on-empty-changeset --disable-rollback --no-disable-rollback",
        "--ebs-optimized --enable-ecs-managed-tags --force-upload",
    ),
    "stripe create": _names(
        "-c|--confirm -s|--show-headers --live --dark-style --dry-run",
    ),
}

TEXTS: tuple[str, ...] = _names(
    "--body --title --subject --message --notes --description --comment --label --labels --assignee --milestone",
    "--reviewer --base --head --ref --target-branch --source-branch --repo --group --hostname --method --header",
    "--jq --namespace --context --kube-context --selector --registry --access --tag --otp --workspace --filter",
    "--username --password --token --repository --stack --project --region --zone --site --alias --limit --tags",
    "--project-name --app --data --expand --idempotency --stripe-version --stripe-account --timeout --bcc --cc",
    "--squash-message --raw-field --var --set --set-string --set-literal",
)
"""Options, by their longest names, whose values are what they say: no file that is sent, but behind an `@`."""
