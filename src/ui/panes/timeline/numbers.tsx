import type { JSX } from "preact";
import { toClock, toCount, toSpan } from "../../core/format.ts";
import { toPrice, toTokenCount } from "../usage/table.ts";
import type { Interval, Numbers } from "./lanes.ts";

/** The numbers of the interval that is shown. */
export function NumbersOf(props: { numbers: Numbers; range: Interval; isWhole: boolean }): JSX.Element {
  const { numbers, range } = props;
  const { usage, firstToken } = numbers;
  return (
    <dl class="totals" aria-label="Numbers of this interval">
      <Fact name={props.isWhole ? "whole session" : "interval"}>
        {toClock(range.from)}–{toClock(range.to)}
      </Fact>
      <Fact name="busy">{toSpan(numbers.busy)}</Fact>
      <Fact name="model">{toPercent(numbers.model)}</Fact>
      <Fact name="tools">{toPercent(numbers.tools)}</Fact>
      <Fact name="people">{toPercent(numbers.people)}</Fact>
      <Fact name="agent itself">{toPercent(numbers.rest)}</Fact>
      <Fact name="requests">{toCount(numbers.requests)}</Fact>
      <Fact name="tokens in">{toTokenCount(usage.input_tokens)}</Fact>
      <Fact name="tokens out">{toTokenCount(usage.output_tokens)}</Fact>
      <Fact name="cost">{toPrice(usage)}</Fact>
      <Fact name="first token">{firstToken === undefined ? "unknown" : toSpan(firstToken)}</Fact>
    </dl>
  );
}

export function Fact({
  name,
  children,
}: {
  name: string;
  children: JSX.Element | string | readonly string[];
}): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function toPercent(part: number): string {
  return `${Math.round(part * 100)} %`;
}
