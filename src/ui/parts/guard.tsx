import { Component, type ComponentChildren } from "preact";

/** A part of the page whose failure stays its own: what cannot be drawn says so, and the rest goes on. */
export class Guard extends Component<
  { readonly label: string; readonly children: ComponentChildren },
  { readonly failure?: string }
> {
  static override getDerivedStateFromError(error: unknown): { failure: string } {
    return { failure: error instanceof Error ? error.message : String(error) };
  }

  override render(): ComponentChildren {
    const { failure } = this.state;
    if (failure === undefined) return this.props.children;
    return (
      <p class="error">
        {this.props.label} cannot be shown: {failure.slice(0, 200)}
      </p>
    );
  }
}
