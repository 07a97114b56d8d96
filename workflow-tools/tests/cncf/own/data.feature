Feature: Data and context
  What the conformance features leave out.

  Scenario: A condition skips a task and keeps its data
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: skipped, version: '1.0.0' }
    do:
      - maybe:
          if: .wanted
          set: { done: true }
      - copy:
          set: { before: '${ . }' }
    """
    And given the workflow input is:
    """yaml
    wanted: false
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    before: { wanted: false }
    """

  Scenario: The context passes values over tasks
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: context, version: '1.0.0' }
    input:
      from: .order
    do:
      - first:
          set: { total: '${ .cents + 1 }' }
          export: { as: '$context + { total: .total, was: $output.total }' }
      - second:
          set: { none: null }
      - third:
          set: { total: '${ $context.total }', was: '${ $context.was }', id: '${ $context.id }', by: '${ $task.name }' }
    output:
      as: '. + { input: $workflow.input.order.id }'
    """
    And given the workflow input is:
    """yaml
    order: { id: 7, cents: 41 }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    total: 42
    was: 42
    id: 7
    by: third
    input: 7
    """

  Scenario: A composite task keeps its input beside its data
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: kept, version: '1.0.0' }
    do:
      - outer:
          input: { from: '{ n: (.n + 1) }' }
          do:
            - inner:
                set: { n: '${ .n * 10 }' }
          output: { as: '{ before: $input.n, after: .n }' }
    """
    And given the workflow input is:
    """yaml
    n: 1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    before: 2
    after: 20
    """
