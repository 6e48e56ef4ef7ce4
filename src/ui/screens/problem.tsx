import type { JSX } from "preact";

const CURES: Readonly<Record<string, string>> = {
  session_not_found: "It may have been deleted, or the link is of another server.",
  token_invalid: "Run `sluice open` in a terminal on the server’s machine: it logs this browser in.",
  permission_denied: "Ask for a link with more rights (sluice open --scope).",
  unreachable: "Is `sluice serve` running? The page tries again by itself.",
};

/** A failure in plain words, and what to do. */
export function ProblemPage(props: { code: string; title: string; detail: string }): JSX.Element {
  return (
    <main class="problem" id="main">
      <h1>{props.title}</h1>
      <p>{props.detail}</p>
      {CURES[props.code] !== undefined && <p class="muted">{CURES[props.code]}</p>}
      <p>
        <a href="#/">All sessions</a>
      </p>
    </main>
  );
}
