Feature: Failures
  What the conformance features leave out.

  Scenario: An error that is not caught by its condition goes on
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: passes, version: '1.0.0' }
    use:
      errors:
        late: { type: 'https://example.com/late', status: 408, title: '${ "late: " + .id }', detail: once more }
    do:
      - guarded:
          try:
            - fails: { raise: { error: late } }
          catch:
            errors: { with: { type: 'https://example.com/late' } }
            when: $error.status > 500
            do:
              - never: { set: { x: 1 } }
    """
    And given the workflow input is:
    """yaml
    id: o-1
    """
    When the workflow is executed
    Then the workflow should fault with error:
    """yaml
    type: https://example.com/late
    status: 408
    title: 'late: o-1'
    detail: once more
    instance: /do/0/guarded/try/0/fails
    """

  Scenario: A failure of an expression is an error too
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: expression, version: '1.0.0' }
    do:
      - guarded:
          try:
            - fails: { set: { x: '${ .id + 1 }' } }
          catch:
            errors: { with: { type: 'https://serverlessworkflow.io/spec/1.0.0/errors/expression' } }
            do:
              - told: { set: { status: '${ $error.status }', at: '${ $error.instance }' } }
    """
    And given the workflow input is:
    """yaml
    id: o-1
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    status: 400
    at: /do/0/guarded/try/0/fails
    """

  Scenario: A caught error is tried again until its limit
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: again, version: '1.0.0' }
    use:
      retries:
        twice: { delay: { milliseconds: 1 }, backoff: { linear: {} }, limit: { attempt: { count: 2 } } }
    do:
      - guarded:
          try:
            - count: { set: { n: '${ $context.n + 1 }' }, export: { as: '$context + { n: .n }' } }
            - fails: { raise: { error: { type: busy, status: 503, title: Busy } } }
          catch:
            errors: { with: { status: 503 } }
            retry: twice
            do:
              - told: { set: { n: '${ $context.n }', title: '${ $error.title }' } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    n: 3
    title: Busy
    """

  Scenario: A wait ends at its timeout
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: late, version: '1.0.0' }
    do:
      - guarded:
          try:
            - slow: { wait: { minutes: 10 }, timeout: { after: { milliseconds: 5 } } }
          catch:
            errors: { with: { type: 'https://serverlessworkflow.io/spec/1.0.0/errors/timeout' } }
            do:
              - told: { set: { status: '${ $error.status }', at: '${ $error.instance }' } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    status: 408
    at: /do/0/guarded/try/0/slow
    """

  Scenario: An error that is not caught is not tried again
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: once, version: '1.0.0' }
    do:
      - outer:
          try:
            - guarded:
                try:
                  - count: { set: { n: '${ $context.n + 1 }' }, export: { as: '$context + { n: .n }' } }
                  - fails: { raise: { error: { type: bad, status: 400, title: Bad } } }
                catch:
                  errors: { with: { status: 503 } }
                  retry: { delay: PT0S, limit: { attempt: { count: 5 } } }
          catch:
            as: problem
            do:
              - told: { set: { n: '${ $context.n }', title: '${ $problem.title }' } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    n: 1
    title: Bad
    """

  Scenario: A call has one key in every attempt
    Given a workflow with definition:
    """yaml
    document: { dsl: '1.0.3', namespace: own, name: keys, version: '1.0.0' }
    do:
      - guarded:
          try:
            - charge: { call: http, with: { method: post, endpoint: 'https://httpbin.org/charge', body: { cents: 5 } } }
          catch:
            retry: { delay: { milliseconds: 1 }, limit: { attempt: { count: 3 } } }
    """
    When the workflow is executed
    Then the workflow should complete with output:
    """yaml
    calls: 3
    keys: 1
    """
